// Asking a probe and recording its verdict, whatever it is (RE-2, RE-6).
//   T6  an inconclusive or thrown probe escalates; a verdict is read back on replay, never asked again.
import { decideProbe } from '../protocol/effect-decision.ts';
import type { RecordBody } from '../protocol/record.ts';
import type { Dispatch, Entry } from './dispatch.ts';
import { probeOnce } from './effect-attempt.ts';
import { record } from './effect-records.ts';
import type { JournalWriter } from './journal-writer.ts';
import { payloadOf } from './journal-writer.ts';
import { EffectError } from './turn-context.ts';

/** Asks once and records the verdict; answers how the dispatch goes on, or null when it was settled. */
export async function askProbe(
  dispatch: Dispatch,
  writer: JournalWriter,
  key: string,
  entry: Extract<Entry, { kind: 'probe' }>,
  settle: (deliver: () => void) => void,
): Promise<Entry | null> {
  const { pass, declared } = dispatch;
  const answer = await probeOnce(dispatch, key, entry.attempt);
  const decision = decideProbe({
    verdict: answer.verdict,
    mutates: declared.mutates,
    attempt: entry.attempt,
    maxAttempts: declared.retry.maxAttempts,
    live: entry.live,
  });
  const verdict = (): RecordBody =>
    record(
      dispatch,
      writer,
      {
        kind: 'EffectReconciled',
        key,
        disposition: answer.verdict === 'inconclusive' ? 'in_doubt' : answer.verdict,
        spend: answer.spend,
      },
      answer.payload,
    );
  switch (decision.kind) {
    case 'done':
      settle(() => {
        pass.heard(verdict());
        dispatch.settle.resolve(answer.output);
      });
      return null;
    case 'retry':
      verdict();
      return { kind: 'announce', attempt: entry.attempt + 1 };
    case 'perform_same_key':
      if (pass.stops(dispatch.site, false)) return leaveUndone(dispatch, writer, key, verdict);
      return {
        kind: 'perform',
        attempt: entry.attempt,
        resend: false,
        verdict: () => void verdict(),
      };
    case 'failed':
    case 'quarantined':
      settle(() => {
        pass.heard(verdict());
        const undecided = decision.kind === 'quarantined';
        dispatch.settle.reject(
          new EffectError(answer.message, {
            code: undecided ? 'effect_undecided' : 'effect_did_not_happen',
            disposition: undecided ? 'in_doubt' : 'did_not_happen',
            effectKey: key,
            step: dispatch.site.step,
            undecided,
          }),
        );
      });
      return null;
  }
}

/** E342: a stopped turn does not send what its probe says never happened; the dispatch is closed as that. */
function leaveUndone(
  dispatch: Dispatch,
  writer: JournalWriter,
  key: string,
  verdict: () => RecordBody,
): null {
  verdict();
  const facts = { disposition: 'did_not_happen' as const, permanent: true, code: 'turn_stopped' };
  record(
    dispatch,
    writer,
    { kind: 'EffectFailed', key, ...facts, spend: { tokens: 0, minorUnits: 0 } },
    payloadOf({ message: 'the turn was stopped before it was sent' }),
  );
  dispatch.pass.scheduler.abandon();
  return null;
}
