// LangGraph's own SQLite saver, unchanged, on Node's SQLite: the part of better-sqlite3 that it calls, and no more.
// The engine and its settings are those of the other contender, nothing is built, and requests can be counted.
import { DatabaseSync, type SQLInputValue } from 'node:sqlite';
import { SqliteSaver } from '@langchain/langgraph-checkpoint-sqlite';

export interface Requests {
  reads: number;
  writes: number;
}

/** Opens the saver; one transaction counts as one write, whatever stands in it. */
export function openSaver(path: string, requests: Requests = { reads: 0, writes: 0 }): SqliteSaver {
  const db = new DatabaseSync(path);
  // As the other contender has it: what was acknowledged survives a loss of power.
  db.exec('PRAGMA synchronous=FULL');
  let inside = false;
  const wrote = (): void => {
    if (!inside) requests.writes += 1;
  };
  const face = {
    pragma: (text: string) => db.exec(`PRAGMA ${text}`),
    exec: (text: string) => db.exec(text),
    prepare: (text: string) => {
      const statement = db.prepare(text);
      return {
        get: (...given: SQLInputValue[]) => {
          requests.reads += 1;
          return statement.get(...given);
        },
        all: (...given: SQLInputValue[]) => {
          requests.reads += 1;
          return statement.all(...given);
        },
        run: (...given: (SQLInputValue | undefined)[]) => {
          wrote();
          return statement.run(...given.map((value) => value ?? null));
        },
      };
    },
    transaction:
      <Given extends unknown[]>(work: (...given: Given) => void) =>
      (...given: Given): void => {
        wrote();
        db.exec('BEGIN');
        inside = true;
        try {
          work(...given);
          db.exec('COMMIT');
        } catch (error) {
          db.exec('ROLLBACK');
          throw error;
        } finally {
          inside = false;
        }
      },
  };
  return new SqliteSaver(face as unknown as ConstructorParameters<typeof SqliteSaver>[0]);
}
