// A dispatch that only stages something: recorded in its place, taking effect with the turn (ruling 13).
//   T7  the place and the arguments are its identity; anything else recorded there is a divergence.
import type { RecordBody, RecordFacts, Site } from '../protocol/record.ts';
import { declareEffect } from './declared-effect.ts';
import type { Pass } from './pass.ts';
import { attemptKey } from './resume-point.ts';

export interface StagedDispatch {
  readonly kind: string;
  readonly args: unknown;
  /** The record of a live staging. */
  readonly facts: (key: string) => RecordFacts;
  /** Called once a pass, with the record, wherever it comes from. */
  readonly staged: (body: RecordBody, argsText: string) => void;
}

/** Records the staging, or reads it back; resolves with its record. */
export function stageDispatch(pass: Pass, site: Site, of: StagedDispatch): Promise<RecordBody> {
  const { kind, args } = of;
  const declared = declareEffect({ kind, args, perform: async () => null });
  const key = attemptKey(site, 1, declared);
  const wanted = of.facts(key).kind;
  return new Promise((resolve) => {
    const heard = (body: RecordBody): void => {
      pass.heard(body);
      of.staged(body, declared.argsText);
      resolve(body);
    };
    const recorded = pass.setup.history.take(site)?.records[0]?.body;
    if (recorded !== undefined) {
      const standing = 'key' in recorded ? recorded.key : '';
      if (recorded.kind !== wanted || standing !== key) {
        const effect = 'effect' in recorded ? recorded.effect : recorded.kind;
        return pass.diverged({
          site,
          recorded: { kind: effect, key: standing, attempt: 1 },
          asked: { kind, key },
          moved: recorded.kind === wanted && effect === kind ? 'args' : 'kind',
          seq: recorded.seq,
        });
      }
      return pass.scheduler.replay(recorded.seq, async () => () => heard(recorded));
    }
    const start = (): void => {
      const { writer } = pass.setup;
      if (writer === null) {
        return pass.diverged({
          site,
          recorded: null,
          asked: { kind, key },
          moved: 'extra',
          seq: 0,
        });
      }
      const settle = pass.scheduler.begin();
      settle(() => heard(writer.ride(of.facts(key), { kind: 'text', text: declared.argsText })));
    };
    pass.whenLive(site, declared, start, { fresh: true });
  });
}
