// Journals, approvals and attention as a person reads them: one line a record, colours where a terminal is.
//   T13  who did what, why it stopped, what is in doubt; a journal that does not verify says so first.
import type { DeployReport } from './check-deploy.ts';

type Fields = Readonly<Record<string, unknown>>;

const codes = { dim: 2, red: 31, green: 32, yellow: 33, cyan: 36, bold: 1 } as const;
export type Paint = (colour: keyof typeof codes, text: string) => string;

/** Colours for a terminal; plain text elsewhere. */
export function painter(terminal: boolean): Paint {
  return (colour, text) => (terminal ? `\u001b[${codes[colour]}m${text}\u001b[0m` : text);
}

const colourOf: Readonly<Record<string, keyof typeof codes>> = {
  EffectStarted: 'cyan',
  EffectDone: 'green',
  AnswerCached: 'green',
  EffectFailed: 'red',
  EffectReconciled: 'yellow',
  AtomicRefused: 'red',
  PolicyDenied: 'red',
  BudgetRefused: 'red',
  RunConcluded: 'bold',
  RunCancelled: 'yellow',
  RunSuspended: 'yellow',
  QuarantineDecided: 'yellow',
};

const hidden = new Set([
  'seq',
  'kind',
  'at',
  'epoch',
  'step',
  'phase',
  'ordinal',
  'prevHash',
  'hash',
  'payload',
  'effectKey',
  'chainHead',
]);

/** One record: number, time, kind, place, what it carries. */
export function recordLine(record: Fields, paint: Paint): string {
  const { seq, at, kind, step, phase, ordinal, effectKey, payload } = record;
  const place = [
    step === undefined || step === '' ? '' : String(step),
    phase === 'compensating' ? 'undo' : '',
    ordinal === undefined || ordinal === 0 ? '' : `#${String(ordinal)}`,
  ]
    .filter((part) => part !== '')
    .join(' ');
  const facts = Object.entries(record)
    .filter(([name, value]) => !hidden.has(name) && value !== '' && value !== false)
    .map(([name, value]) => `${name}=${plain(value)}`);
  const key =
    typeof effectKey === 'string' && effectKey !== '' ? [`key=${effectKey.slice(0, 8)}`] : [];
  const carried = payload === undefined || payload === null ? [] : [shortened(plain(payload), 120)];
  return [
    paint('dim', String(seq).padStart(4)),
    paint('dim', String(at).slice(11, 23)),
    paint(colourOf[String(kind)] ?? 'dim', String(kind).padEnd(17)),
    place.padEnd(12),
    [...facts, ...key].join(' '),
    paint('dim', carried.join(' ')),
  ]
    .join(' ')
    .trimEnd();
}

/** A journal with the verdict over its chain. */
export function journalLines(journal: Fields, paint: Paint): readonly string[] {
  const records = Array.isArray(journal.records) ? (journal.records as readonly Fields[]) : [];
  const { verified } = journal;
  const verdict =
    verified === true
      ? paint('green', `chain verified, ${records.length} records`)
      : paint('red', `chain broken: ${plain(verified)}`);
  const late = Array.isArray(journal.late) ? (journal.late as readonly Fields[]) : [];
  return [
    ...records.map((record) => recordLine(record, paint)),
    ...late.map((result) => lateLine(result, paint)),
    verdict,
  ];
}

/** A result nobody could record any more: evidence for whoever decides a doubt. */
function lateLine({ at, effectKey, outcome, owner, output }: Fields, paint: Paint): string {
  const told = `${plain(outcome)} key=${plain(effectKey).slice(0, 8)}, heard too late by ${plain(owner)}`;
  const carried = paint('dim', shortened(plain(output), 120));
  return `${paint('dim', `late ${String(at).slice(11, 23)}`)} ${paint('yellow', told)} ${carried}`;
}

/** Why an endpoint was called as often as it was: attempts of each effect with their endings. */
export function attemptLines(journal: Fields): readonly string[] {
  const records = Array.isArray(journal.records) ? (journal.records as readonly Fields[]) : [];
  const lines: string[] = [];
  for (const record of records) {
    if (record.kind !== 'EffectStarted' || Number(record.attempt) < 2) continue;
    const before = records.findLast(
      (other) =>
        Number(other.seq) < Number(record.seq) &&
        other.step === record.step &&
        other.ordinal === record.ordinal &&
        (other.kind === 'EffectFailed' || other.kind === 'EffectReconciled'),
    );
    const why = `${String(before?.code ?? before?.kind ?? 'nothing recorded')} (${String(before?.disposition ?? '?')})`;
    lines.push(`${String(record.effectKind)}: attempt ${String(record.attempt)} after ${why}`);
  }
  return lines;
}

/** True when a strict pass verified and the audit found nothing. */
export function clean(verified: Fields): boolean {
  return verified.verdict === 'verified' && findingsIn(verified).length === 0;
}

function findingsIn({ audit }: Fields): readonly Fields[] {
  const found = (audit as Fields | null | undefined)?.findings;
  return Array.isArray(found) ? (found as readonly Fields[]) : [];
}

/** The verdict of a strict pass, the findings of the audit, and what was not looked at. */
export function auditLines(verified: Fields, paint: Paint): readonly string[] {
  const { verdict, outcome, reason, audit } = verified;
  const said = [verdict, outcome ?? reason].filter((word) => word !== undefined).map(plain);
  const unseen = (audit as Fields | null | undefined)?.notChecked;
  return [
    paint(verdict === 'verified' ? 'green' : 'red', said.join(' ')),
    ...findingsIn(verified).map(({ finding, ...facts }) =>
      [
        paint('red', plain(finding)),
        ...Object.entries(facts).map(([name, value]) => `${name}=${plain(value)}`),
      ].join(' '),
    ),
    `not checked: ${Array.isArray(unseen) ? unseen.map(plain).join(', ') : ''}`,
  ];
}

/** A strict pass's answer: agreement, the first divergence with the edit it is, or why there is none. */
export function verdictLines(answer: Fields, paint: Paint): readonly string[] {
  const { verdict, outcome, reason, change, declaration } = answer;
  const build = (declaration as Fields | undefined)?.same === false ? 'another declaration' : '';
  const under = build === '' ? [] : [paint('yellow', `under ${build} than it was admitted with`)];
  if (verdict === 'verified') return [paint('green', `verified: ${plain(outcome)}`), ...under];
  if (verdict !== 'diverged') {
    return [paint('yellow', `cannot be replayed: ${plain(reason)}`), ...under];
  }
  if (answer.moved === 'outcome') {
    const endings = `recorded ${plain(answer.recordedOutcome)}, now ${plain(outcome)}`;
    return [paint('red', `diverged: every call agrees, the ending does not: ${endings}`), ...under];
  }
  const { class: kind, explains, ordinal, step } = (change ?? {}) as Fields;
  const place = answer.step === '' ? 'outside a step' : `step ${plain(answer.step)}`;
  const undo = answer.phase === 'compensating' ? ' (undo)' : '';
  const other = ordinal === undefined ? '' : ` with effect ${plain(ordinal)}`;
  const name = step === undefined ? '' : ` to step ${plain(step)}`;
  const rest =
    explains === 'all' ? 'everything else agrees' : 'this does not explain all of the journal';
  return [
    paint('red', `diverged at ${place}${undo}, effect ${plain(answer.ordinal)}`),
    `  ${plain(kind)}${other}${name}: ${rest}`,
    `  recorded ${called(answer.recorded)}`,
    `  asked    ${called(answer.asked)}`,
    ...under,
  ];
}

function called(call: unknown): string {
  if (typeof call !== 'object' || call === null) return 'nothing';
  const { kind, key } = call as Fields;
  return `${plain(kind)} key=${plain(key).slice(0, 8)}`;
}

export function approvalLines(list: Fields, paint: Paint): readonly string[] {
  const items = Array.isArray(list.items) ? (list.items as readonly Fields[]) : [];
  if (items.length === 0) return ['nothing waits for a person'];
  return items.map(
    ({ id, status, summary, requestedBy, until, threadId, turnId }) =>
      `${paint('yellow', String(status).padEnd(8))} ${String(id)} ${String(threadId)}/${String(turnId)} asked by ${String(requestedBy)}, until ${String(until)}: ${String(summary)}`,
  );
}

export function attentionLines(list: Fields, paint: Paint): readonly string[] {
  const items = Array.isArray(list.items) ? (list.items as readonly Fields[]) : [];
  const lines = items.flatMap(({ condition, count, remedy, subjects }) => [
    `${paint('red', String(condition))} ${String(count)}: ${String(remedy)}`,
    ...(subjects as readonly Fields[]).map(
      ({ threadId, turnId, since }) =>
        `  ${String(threadId)}/${String(turnId)} since ${String(since)}`,
    ),
  ]);
  const unseen = Array.isArray(list.notChecked) ? list.notChecked.join(', ') : '';
  return [...(lines.length === 0 ? ['nothing needs a person'] : lines), `not checked: ${unseen}`];
}

/** What a deployment would meet: a line a finding, then the figures. */
export function deployLines(report: DeployReport, paint: Paint): readonly string[] {
  const colour = {
    goes_on: 'dim',
    migrates: 'cyan',
    held: 'yellow',
    unreadable: 'yellow',
  } as const;
  const lines = report.findings.map(({ what, thread, turn, status, outcome, code, detail }) => {
    const shade = Reflect.get(colour, outcome) ?? 'red';
    const place = turn === null ? thread : `${thread}/${turn}`;
    const word = paint(shade, outcome.padEnd(10));
    return `${word} ${what} ${place} (${status}): ${code}: ${detail}`.replace(/ \(\)/, '');
  });
  const { threads, turns, acts } = report.checked;
  const figures = Object.entries(report.counts).map(([name, count]) => `${count} ${name}`);
  return [...lines, `${threads} threads, ${turns} open turns, ${acts} acts: ${figures.join(', ')}`];
}

function plain(value: unknown): string {
  return typeof value === 'string' ? value : (JSON.stringify(value) ?? String(value));
}

function shortened(text: string, most: number): string {
  return text.length <= most ? text : `${text.slice(0, most - 1)}…`;
}
