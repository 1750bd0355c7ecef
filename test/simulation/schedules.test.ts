// Goal: the write protocol keeps its promises under any small interleaving, and each rule is needed.
// Method: thousands of seeded schedules against the real port on SQLite; then the same with one rule of
// page 09 left out at a time, which must be caught.
import { expect, test } from 'vitest';
import type { ConcludeWrite, Head, TurnStore } from '../../src/ports/store.ts';
import type { ScheduleOptions } from '../../src/testing/schedules.ts';
import { runSchedule } from '../../src/testing/schedules.ts';
import { memoryStore } from '../stores.ts';

async function violations(
  count: number,
  options: Omit<ScheduleOptions, 'seed' | 'open'>,
): Promise<string[]> {
  const found: string[] = [];
  for (let seed = 1; seed <= count; seed += 1) {
    const report = await runSchedule({ ...options, seed, open: () => memoryStore() }).catch(
      (error: unknown) => ({ violations: [String(error)] }),
    );
    found.push(...report.violations.map((violation) => `seed ${seed}: ${violation}`));
  }
  return found;
}

test('no schedule breaks a promise [T1 T2 T3 T4 T5]', async () => {
  expect(await violations(800, {})).toEqual([]);
});

/** A store that behaves but for the verbs given. */
function but(store: TurnStore, verbs: Partial<TurnStore>): TurnStore {
  return new Proxy(store, {
    get: (target, name) => {
      const own: unknown = Reflect.get(verbs, name);
      if (own !== undefined) return own;
      const member: unknown = Reflect.get(target, name);
      return typeof member === 'function' ? member.bind(target) : member;
    },
  });
}

const current = async (store: TurnStore, seen: Head | null): Promise<Head | null> => {
  const head = await store.head({ tenant: 'acme' as never, thread: 'th' as never });
  return head ?? seen;
};

/** The checkpoint as it would follow the head that stands: the revision is a fence of its own (K-06). */
function nextOf(write: ConcludeWrite, head: Head | null): ConcludeWrite['checkpoint'] {
  if (write.checkpoint === null) return null;
  const revision = (head?.revision ?? 0) + 1;
  return { ...write.checkpoint, next: { ...write.checkpoint.next, revision } };
}

const mutants: Readonly<Record<string, Omit<ScheduleOptions, 'seed' | 'open'>>> = {
  'rule 2: a held commit that compares neither epoch nor position': {
    mutate: (store) =>
      but(store, {
        conclude: async (write) => {
          if (write.hold.kind !== 'held') return store.conclude(write);
          const head = await current(store, null);
          const index = (await store.journal(write.ref)).length;
          const owner = head?.open?.owner ?? write.writer.owner;
          const writer = { ...write.writer, owner, epoch: head?.epoch ?? 1 };
          return store.conclude({
            ...write,
            writer,
            batch: { ...write.batch, index },
            checkpoint: nextOf(write, head),
          });
        },
      }),
  },
  'rule 3: an append at whatever position is free': {
    mutate: (store) =>
      but(store, {
        append: async (write) => {
          const index = (await store.journal(write.ref)).length;
          return store.append({ ...write, batch: { ...write.batch, index } });
        },
      }),
  },
  'rule 1c: a turn without effects that commits on whatever head and position it finds': {
    mutate: (store) =>
      but(store, {
        conclude: async (write) => {
          if (write.hold.kind !== 'optimistic') return store.conclude(write);
          const seen = await current(store, null);
          const index = (await store.journal(write.ref)).length;
          const writer = { ...write.writer, epoch: (seen?.epoch ?? 0) + 1 };
          return store.conclude({
            ...write,
            hold: { kind: 'optimistic', seen },
            writer,
            batch: { ...write.batch, index },
            checkpoint: nextOf(write, seen),
          });
        },
      }),
  },
  'rule 4: a takeover that does not occupy the next position of the turn the head names': {
    without: 'takeover names its own turn',
  },
  'LE-10: a takeover before the lease has lapsed, under the head as it stands': {
    mutate: (store) =>
      but(store, {
        begin: async (ref, subject) => {
          const begun = await store.begin(ref, subject);
          const { head } = begun;
          if (head?.open == null) return begun;
          return { ...begun, head: { ...head, open: { ...head.open, leaseUntil: 0 as never } } };
        },
        takeover: async (write) => {
          const late = {
            ...write,
            now: (write.now + 10_000) as never,
            leaseUntil: (write.leaseUntil + 20_000) as never,
          };
          const head = await current(store, write.seen);
          const index = (await store.journal(write.ref)).length;
          if (head === null) return store.takeover(late);
          const writer = { ...write.writer, epoch: head.epoch + 1 };
          const outcome = await store.takeover({
            ...late,
            seen: head,
            writer,
            batch: { ...write.batch, index },
          });
          return outcome.kind === 'done' ? outcome : { kind: 'done' };
        },
      }),
  },
  'T5: an announcement that is written again for the next owner': {
    mutate: (store) =>
      but(store, {
        append: (write) =>
          store.append({
            ...write,
            announced: new Set(),
            batch: {
              ...write.batch,
              announces: [],
              records: [...write.batch.records, ...write.batch.records],
            },
          }),
      }),
  },
};

for (const [rule, options] of Object.entries(mutants)) {
  test(`the schedules catch a protocol without ${rule}`, async () => {
    expect((await violations(400, options)).length).toBeGreaterThan(0);
  });
}
