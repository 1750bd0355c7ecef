// What every journal must show of undoing and of groups: the rules of page 01, sections 4 to 8, as a check
// that knows nothing of the runtime. Each function answers the rules a journal breaks, in words; none is none.
//   T8 T9

import type { RecordBody } from '../protocol/record.ts';

/** What a kind of call is in its group; a reversal names the kind it takes back. */
export type MemberClass =
  | 'read'
  | 'reversible'
  | 'deferred'
  | 'atomic'
  | { readonly reverses: string };

interface Call {
  readonly effect: string;
  readonly mutates: boolean;
  readonly startedAt: number;
  /** Position in the journal of the record that says it landed, or null. */
  landedAt: number | null;
  /** Nobody knows whether it landed. */
  doubt: boolean;
}

/** Calls of a journal, one a dispatch, with what their last word is. */
function callsOf(bodies: readonly RecordBody[], wanted: (body: RecordBody) => boolean): Call[] {
  const calls = new Map<string, Call>();
  bodies.forEach((body, index) => {
    if (!('site' in body)) return;
    const place = `${body.site.step}/${body.site.phase}/${body.site.ordinal}`;
    const call = calls.get(place);
    if (body.kind === 'EffectStarted') {
      const doubt = body.wait === undefined;
      if (call !== undefined) call.doubt = doubt;
      else if (wanted(body)) {
        const { effect, mutates } = body;
        calls.set(place, { effect, mutates, startedAt: index, landedAt: null, doubt });
      }
    } else if (call !== undefined) hear(call, body, index);
  });
  return [...calls.values()];
}

function hear(call: Call, body: RecordBody, index: number): void {
  if (body.kind === 'EffectDone') {
    call.landedAt = index;
    call.doubt = false;
  }
  if (body.kind === 'EffectFailed' || body.kind === 'EffectReconciled') {
    call.doubt = body.disposition === 'in_doubt';
    if (body.disposition === 'landed') call.landedAt = index;
  }
}

/** Broken rules of every group of a turn (01, section 7 "Check"). */
export function brokenGroupRules(
  bodies: readonly RecordBody[],
  classOf: (effect: string) => MemberClass,
): readonly string[] {
  const broken: string[] = [];
  const names = new Set(
    bodies.flatMap((body) => (body.kind === 'GroupOpened' ? [`${body.step}\n${body.name}`] : [])),
  );
  for (const place of names) {
    const [step, name] = place.split('\n');
    const say = (rule: string): void => void broken.push(`group ${name}: ${rule}`);
    const endings = bodies.flatMap((body) =>
      body.kind === 'GroupSettled' && body.step === step && body.name === name
        ? [body.outcome]
        : [],
    );
    const calls = callsOf(
      bodies,
      (body) => body.kind === 'EffectStarted' && body.group === name && body.site.step === step,
    );
    checkGroup(calls, classOf, endings, say);
    const concluded = bodies.find((body) => body.kind === 'RunConcluded');
    if (endings.length === 0 && concluded !== undefined)
      say('GR-12 a conclusion stands over an unsettled group');
    if (endings.includes('quarantined') && concluded?.outcome === 'succeeded')
      say('decision 1: a quarantined settlement ended as a success');
  }
  return broken;
}

function checkGroup(
  calls: readonly Call[],
  classOf: (effect: string) => MemberClass,
  endings: readonly string[],
  say: (rule: string) => void,
): void {
  const of = (wanted: string): Call[] => calls.filter((call) => classOf(call.effect) === wanted);
  const reversals = calls.filter((call) => typeof classOf(call.effect) === 'object');
  const landed = of('reversible').filter((call) => call.landedAt !== null);
  const last = endings.at(-1);
  const gated = of('deferred');
  if (endings.length > 1) say(`GR-8 one ending, got ${endings.join(', ')}`);
  for (const sent of gated) {
    if (landed.some((call) => (call.landedAt ?? 0) > sent.startedAt))
      say(`GR-6 ${sent.effect} left before a reversible member landed`);
    if (of('atomic').some((call) => call.startedAt > sent.startedAt))
      say(`GR-6 ${sent.effect} left before the atomic members`);
  }
  if (gated.some((call) => call.landedAt !== null || call.doubt) && reversals.length > 0)
    say('GR-5 something was taken back after an irreversible member left');
  const settledDoubt = calls.some(
    (call) => call.doubt && call.mutates && typeof classOf(call.effect) === 'string',
  );
  if (settledDoubt && reversals.length > 0) say('GR-8 a doubt stands and something was reversed');
  if (last === 'aborted') {
    if (gated.some((call) => call.landedAt !== null || call.doubt))
      say('GR-8 aborted, and a deferred member left');
    if (of('atomic').some((call) => call.landedAt !== null)) say('GR-8 aborted over standing rows');
    for (const call of landed) {
      const back = reversals.filter((undo) => reverses(classOf(undo.effect)) === call.effect);
      if (back.length !== 1) say(`GR-8 aborted, and ${call.effect} was reversed ${back.length}×`);
      if (back.some((undo) => undo.landedAt === null)) say(`GR-8 ${call.effect} still stands`);
    }
  }
  if (last === 'committed') {
    if (gated.some((call) => call.landedAt === null)) say('GR-8 committed without a member');
    if (reversals.length > 0) say('GR-7 committed and reversed');
  }
  const order = reversals.map((undo) => reverses(classOf(undo.effect)));
  const newest = landed.map((call) => call.effect).toReversed();
  if (order.some((effect, at) => effect !== newest[at]))
    say(`GR-5 reversed as ${order.join(', ')}`);
}

const reverses = (as: MemberClass): string | null => (typeof as === 'object' ? as.reverses : null);

/** Broken rules of a turn's unwind (01, sections 5, 6 and 8). */
export function brokenUnwindRules(bodies: readonly RecordBody[]): readonly string[] {
  const broken: string[] = [];
  const at = (kind: RecordBody['kind']): number => bodies.findIndex((body) => body.kind === kind);
  const count = (kind: RecordBody['kind']): number =>
    bodies.filter((body) => body.kind === kind).length;
  if (count('RunCancelled') > 1) broken.push('CA-2 a stop is recorded twice');
  const begun = at('UnwindStarted');
  const undoing = bodies.findIndex(
    (body) => body.kind === 'EffectStarted' && body.site.phase === 'compensating',
  );
  if (undoing >= 0 && (begun < 0 || begun > undoing))
    broken.push('decision 4: an undo before the start of the unwind was recorded');
  const stopped = at('RunCancelled');
  if (begun >= 0 && stopped > begun && bodies[begun]?.kind === 'UnwindStarted') {
    const start = bodies[begun];
    if ('status' in start && start.status === 'cancelled')
      broken.push('CA-2 the unwind of a stop began before the stop was recorded');
  }
  const concluded = bodies.find((body) => body.kind === 'RunConcluded');
  const walked = bodies.flatMap((body) =>
    body.kind === 'StepCompensated' && body.outcome === 'ok' ? [body.step] : [],
  );
  if (walked.length > 0 && concluded?.outcome === 'succeeded')
    broken.push('SA-10 a success stands over undone work');
  if (new Set(walked).size !== walked.length) broken.push(`SA-13 undone twice: ${walked}`);
  const inDoubt = callsOf(
    begun < 0 ? [] : bodies.slice(0, begun),
    (body) => body.kind === 'EffectStarted' && body.mutates && body.site.phase === 'forward',
  ).some((call) => call.doubt);
  if (inDoubt && walked.length > 0) broken.push('SA-8 undone around a doubt');
  const order = expectedOrder(bodies);
  const places = walked.map((step) => order.indexOf(step));
  if (places.some((place, index) => index > 0 && place < (places[index - 1] ?? 0)))
    broken.push(`SA-4 undone as ${walked}, expected the order of ${order}`);
  return broken;
}

/** Interrupted steps first, then completed ones, each newest first (SA-4, SA-9). */
function expectedOrder(bodies: readonly RecordBody[]): readonly string[] {
  const started = bodies.flatMap((body) => (body.kind === 'StepStarted' ? [body.step] : []));
  const complete = new Set(
    bodies.flatMap((body) =>
      body.kind === 'StepFinished' && body.outcome === 'ok' ? [body.step] : [],
    ),
  );
  const newest = [...new Set(started)].toReversed();
  return [
    ...newest.filter((step) => !complete.has(step)),
    ...newest.filter((step) => complete.has(step)),
  ];
}
