// The turns the group model is checked over: every class of member, every ending a step can give its group, members
// side by side, waits, stops, failing siblings, and each way a call may be settled after a crash.
import { callOf } from './group-model.ts';
import type { Script } from './group-program.ts';
import type { CallSpec } from './group-records.ts';

const quiet = { recovery: 'idempotent', fates: ['lands'] } as const;
const all = ['lands', 'garbled', 'refused', 'lost', 'silent'] as const;

const r1 = callOf('r1', 'reversible');
const r2 = callOf('r2', 'reversible');
const look = callOf('look', 'read', { fates: ['lands', 'refused', 'silent'] });
const row = callOf('row', 'atomic', { fates: ['lands', 'refused'] });
const d1 = callOf('d1', 'deferred');
const d2 = callOf('d2', 'deferred');
const brief = callOf('r2', 'reversible', { fates: ['lands', 'refused', 'lost'] });

const others = (changed: readonly CallSpec[] = []): readonly CallSpec[] => {
  const usual = [
    callOf('a', 'plain', quiet),
    callOf('undo-a', 'undo', quiet),
    callOf('undo-s', 'undo', quiet),
    callOf('undo-r1', 'reversal'),
    callOf('undo-r2', 'reversal', { recovery: 'idempotent', fates: ['lands', 'refused'] }),
    callOf('w', 'wait'),
  ];
  return usual.map((call) => changed.find(({ name }) => name === call.name) ?? call);
};

function script(name: string, of: Partial<Script>): Script {
  return {
    name,
    members: [r1, d1],
    others: others(),
    eager: 'in turn',
    swallows: false,
    waits: false,
    sibling: false,
    ends: 'commit',
    invariantHolds: true,
    before: false,
    shrugs: false,
    declared: 'undeclared',
    failsAfter: false,
    reopenings: 1,
    stops: false,
    ...of,
  };
}

export const groupScripts: readonly Script[] = [
  script('every class of member', { members: [r1, look, r2, row, d1, d2] }),
  script('answers that cannot be used', {
    members: [
      callOf('r1', 'reversible', { fates: all }),
      callOf('d1', 'deferred', { fates: all }),
      d2,
    ],
  }),
  script('members side by side', { members: [r1, brief, d1], eager: 'together' }),
  script('members side by side, one swallowed', {
    members: [brief, look, d1],
    eager: 'together',
    swallows: true,
  }),
  script('members nobody waits for', { members: [r1, brief, d1], eager: 'unawaited' }),
  script('a false invariant', { members: [r1, r2, row, d1], invariantHolds: false }),
  script('the step takes its group back', { members: [r1, r2, d1], ends: 'abort' }),
  script('the step throws', { members: [r1, r2, d1], ends: 'throw', before: true }),
  script('the step returns', { members: [r1, d1], ends: 'return', before: true }),
  script('what fails is swallowed', { members: [r1, look, r2, d1, d2], swallows: true }),
  script('calls that may be asked', {
    members: [
      callOf('r1', 'reversible', { recovery: 'reconcile' }),
      callOf('d1', 'deferred', { recovery: 'reconcile' }),
    ],
    others: others([callOf('undo-r1', 'reversal', { recovery: 'reconcile' })]),
  }),
  script('calls that may be repeated', {
    members: [
      callOf('r1', 'reversible', { recovery: 'idempotent', tries: 2 }),
      callOf('d1', 'deferred', { recovery: 'idempotent', tries: 2 }),
    ],
  }),
  script('a stop', { members: [r1, d1, d2], stops: true, before: true }),
  script('a stop around rows', { members: [r1, row, d1], stops: true, declared: 'compensatable' }),
  script('a stop of calls that may be asked', {
    members: [
      callOf('r1', 'reversible', { recovery: 'reconcile' }),
      callOf('d1', 'deferred', { recovery: 'reconcile', fates: ['lands', 'lost'] }),
    ],
    stops: true,
  }),
  script('a stop while the step waits', { waits: true, stops: true, before: true }),
  script('a stop beside a doubt of a step before', {
    waits: true,
    stops: true,
    before: true,
    shrugs: true,
    others: others([callOf('a', 'plain', { fates: ['lands', 'lost', 'silent'] })]),
  }),
  script('a failing sibling while the step waits', {
    members: [r1, r2, d1],
    waits: true,
    sibling: true,
    before: true,
  }),
  script('a later step fails', { failsAfter: true, before: true, declared: 'compensatable' }),
  script('a later step fails, the group undeclared', {
    failsAfter: true,
    before: true,
    swallows: true,
  }),
];
