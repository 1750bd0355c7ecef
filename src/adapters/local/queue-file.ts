// The rows of the embedded queues: one SQLite file, several queues, several processes.
//
//   T3   a group has one holder at a time; what a holder that died had in hand comes back before what is behind it.
//   K-69 an id that was taken is not taken again for a while, whoever sends it.
// Durability: WAL with synchronous=NORMAL. A killed process loses nothing; a power cut may lose the last messages,
// which the store's own rows bring back. Bodies are references (ruling 22).
import { DatabaseSync, type StatementSync } from 'node:sqlite';
import type { QueueMessage } from '../../ports/queue.ts';
import { limits } from '../../protocol/limits.ts';

export interface HeldMessage {
  readonly seq: number;
  readonly id: string;
  readonly body: string;
  /** Deliveries so far, this one included. */
  readonly receives: number;
}

/** Messages of one group in the hands of one holder. */
export interface HeldBatch {
  readonly group: string;
  readonly token: string;
  readonly messages: readonly HeldMessage[];
}

export interface ParkedMessage extends QueueMessage {
  readonly reason: string;
}

/** What becomes of a batch: which leave, which one is parked, and when the group is handed out again. */
export interface Settlement {
  readonly done: readonly HeldMessage[];
  readonly parked: { readonly message: HeldMessage; readonly reason: string } | null;
  /** Messages whose delivery does not count. */
  readonly uncounted: readonly HeldMessage[];
  readonly againAt: number;
}

const schema = `
  CREATE TABLE IF NOT EXISTS message (seq INTEGER PRIMARY KEY AUTOINCREMENT, queue TEXT NOT NULL,
    grp TEXT NOT NULL, id TEXT NOT NULL, body TEXT NOT NULL, receives INTEGER NOT NULL) STRICT;
  CREATE INDEX IF NOT EXISTS message_order ON message (queue, grp, seq);
  CREATE TABLE IF NOT EXISTS line (queue TEXT NOT NULL, grp TEXT NOT NULL, until INTEGER NOT NULL,
    token TEXT, PRIMARY KEY (queue, grp)) STRICT, WITHOUT ROWID;
  CREATE INDEX IF NOT EXISTS line_due ON line (queue, until);
  CREATE TABLE IF NOT EXISTS taken (queue TEXT NOT NULL, id TEXT NOT NULL, until INTEGER NOT NULL,
    PRIMARY KEY (queue, id)) STRICT, WITHOUT ROWID;
  CREATE INDEX IF NOT EXISTS taken_due ON taken (until);
  CREATE TABLE IF NOT EXISTS parked (queue TEXT NOT NULL, grp TEXT NOT NULL, id TEXT NOT NULL,
    body TEXT NOT NULL, reason TEXT NOT NULL, at INTEGER NOT NULL) STRICT;`;
const openBlockMs = 5_000;
const busyBlockMs = 20;

export class QueueFile {
  readonly #db: DatabaseSync;
  readonly #queue: string;
  readonly #statements = new Map<string, StatementSync>();

  /** Opens or makes the file at `path` (`:memory:` for none); `queue` names the rows of this one. */
  constructor(path: string, queue: string) {
    this.#queue = queue;
    this.#db = new DatabaseSync(path, { timeout: openBlockMs });
    this.#db.exec('PRAGMA journal_mode = WAL');
    this.#db.exec('PRAGMA synchronous = NORMAL');
    this.#db.exec('PRAGMA secure_delete = ON');
    this.#within(() => this.#db.exec(schema));
    this.#db.exec(`PRAGMA busy_timeout = ${busyBlockMs}`);
  }

  /** Adds messages whose ids were not taken lately. */
  add(messages: readonly QueueMessage[], now: number): void {
    this.#within(() => {
      this.#run('DELETE FROM taken WHERE until <= ?', now);
      for (const { group, dedupId, body } of messages) {
        const fresh = this.#run(
          'INSERT OR IGNORE INTO taken VALUES (?, ?, ?)',
          this.#queue,
          dedupId,
          now + limits.queueDedupMs,
        );
        if (fresh === 0) continue;
        this.#run(
          'INSERT INTO message (queue, grp, id, body, receives) VALUES (?, ?, ?, ?, 0)',
          this.#queue,
          group,
          dedupId,
          body,
        );
        this.#run('INSERT OR IGNORE INTO line VALUES (?, ?, ?, NULL)', this.#queue, group, now);
      }
    });
  }

  /** Takes the first messages of the group that waits longest, until `until`; null when none is free. */
  take(now: number, until: number, token: string): HeldBatch | null {
    return this.#within(() => {
      const free = this.#get(
        'SELECT grp FROM line WHERE queue = ? AND until <= ? ORDER BY until LIMIT 1',
        this.#queue,
        now,
      );
      if (free === undefined) return null;
      const group = String(free.grp);
      const of = [this.#queue, group] as const;
      this.#run(
        'UPDATE line SET until = ?, token = ? WHERE queue = ? AND grp = ?',
        until,
        token,
        ...of,
      );
      const rows = this.#statement(
        `SELECT seq, id, body, receives FROM message WHERE queue = ? AND grp = ?
         ORDER BY seq LIMIT ${limits.inboxBatch}`,
      ).all(...of);
      const messages = rows.map((row) => ({
        seq: Number(row.seq),
        id: String(row.id),
        body: String(row.body),
        receives: Number(row.receives) + 1,
      }));
      for (const { seq } of messages) {
        this.#run('UPDATE message SET receives = receives + 1 WHERE seq = ?', seq);
      }
      return { group, token, messages };
    });
  }

  /** Keeps a batch in hand until `until`; false when it went to another holder. */
  renew(batch: HeldBatch, until: number): boolean {
    const changed = this.#run(
      'UPDATE line SET until = ? WHERE queue = ? AND grp = ? AND token = ?',
      until,
      this.#queue,
      batch.group,
      batch.token,
    );
    return changed > 0;
  }

  /** Gives a batch back; whoever lost it changes nothing. */
  settle(batch: HeldBatch, settled: Settlement, now: number): void {
    this.#within(() => {
      if (!this.renew(batch, settled.againAt)) return;
      const { group } = batch;
      for (const { seq } of settled.done) this.#run('DELETE FROM message WHERE seq = ?', seq);
      for (const { seq } of settled.uncounted) {
        this.#run('UPDATE message SET receives = receives - 1 WHERE seq = ?', seq);
      }
      if (settled.parked !== null) {
        const { message, reason } = settled.parked;
        const { seq, id, body } = message;
        this.#run('DELETE FROM message WHERE seq = ?', seq);
        const sql = 'INSERT INTO parked VALUES (?, ?, ?, ?, ?, ?)';
        this.#run(sql, this.#queue, group, id, body, reason, now);
      }
      const of = [this.#queue, group] as const;
      this.#run('UPDATE line SET token = NULL WHERE queue = ? AND grp = ?', ...of);
      const empty =
        'NOT EXISTS (SELECT 1 FROM message WHERE queue = line.queue AND grp = line.grp)';
      this.#run(`DELETE FROM line WHERE queue = ? AND grp = ? AND ${empty}`, ...of);
    });
  }

  /** Messages waiting or in hand. */
  depth(): number {
    return Number(this.#get('SELECT count(*) AS n FROM message WHERE queue = ?', this.#queue)?.n);
  }

  parked(): readonly ParkedMessage[] {
    const sql = 'SELECT grp, id, body, reason FROM parked WHERE queue = ? ORDER BY at';
    return this.#statement(sql)
      .all(this.#queue)
      .map((row) => ({
        group: String(row.grp),
        dedupId: String(row.id),
        body: String(row.body),
        reason: String(row.reason),
      }));
  }

  close(): void {
    this.#statements.clear();
    if (this.#db.isOpen) this.#db.close();
  }

  #within<T>(work: () => T): T {
    this.#db.exec('BEGIN IMMEDIATE');
    try {
      const result = work();
      this.#db.exec('COMMIT');
      return result;
    } finally {
      if (this.#db.isOpen && this.#db.isTransaction) this.#db.exec('ROLLBACK');
    }
  }

  #statement(sql: string): StatementSync {
    const known = this.#statements.get(sql);
    if (known !== undefined) return known;
    const made = this.#db.prepare(sql);
    this.#statements.set(sql, made);
    return made;
  }

  #get(sql: string, ...values: readonly (string | number)[]) {
    return this.#statement(sql).get(...values);
  }

  #run(sql: string, ...values: readonly (string | number)[]): number {
    return Number(this.#statement(sql).run(...values).changes);
  }
}

/** True for the refusal of a file that another process is writing: nothing was done. */
export function isFileBusy(error: unknown): boolean {
  const code: unknown = Reflect.get(Object(error), 'errcode');
  return typeof code === 'number' && (code & 0xff) === 5;
}
