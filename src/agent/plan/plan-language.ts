// The plan language of page 05 as schemas: strict, so that an unknown field is refused, never ignored.
import * as v from 'valibot';
import { limits } from '../../protocol/limits.ts';

const name = v.pipe(v.string(), v.minLength(1), v.maxLength(limits.nameCharacters));
const id = v.pipe(
  v.string(),
  v.regex(/^[A-Za-z0-9._:@-]{1,256}$/, 'expected 1 to 256 characters of A-Z a-z 0-9 . _ : - @'),
);
const positive = v.pipe(v.number(), v.integer(), v.minValue(1));
const natural = v.pipe(v.number(), v.integer(), v.minValue(0));
/** Any JSON value; its strings may hold references. */
const value = v.unknown();

const request = v.strictObject({
  method: v.pipe(v.string(), v.regex(/^[A-Z]{1,16}$/, 'expected a method in capitals')),
  url: v.pipe(v.string(), v.minLength(1)),
  headers: v.optional(v.record(v.string(), v.string())),
  body: v.optional(value),
});

const retry = v.strictObject({
  maxAttempts: v.optional(v.pipe(positive, v.maxValue(limits.retryAttemptsMax))),
  initialMs: v.optional(natural),
  multiplier: v.optional(positive),
  maxMs: v.optional(natural),
});

const effect = v.strictObject({
  kind: name,
  request,
  mutates: v.optional(v.boolean()),
  recovery: v.optional(v.picklist(['operator', 'retry', 'idempotent', 'reconcile'])),
  probe: v.optional(
    v.strictObject({ method: v.literal('GET'), url: v.pipe(v.string(), v.minLength(1)) }),
  ),
  retry: v.optional(retry),
  timeoutMs: v.optional(v.pipe(positive, v.maxValue(limits.effectTimeoutMaxMs))),
  key: v.optional(v.pipe(v.string(), v.minLength(1))),
  cost: v.optional(
    v.strictObject({ minorUnits: v.optional(natural), tokens: v.optional(natural) }),
  ),
});

const condition = v.strictObject({
  left: value,
  op: v.picklist(['eq', 'ne', 'lt', 'le', 'gt', 'ge']),
  right: value,
});

const as = v.optional(
  v.pipe(
    v.string(),
    v.regex(/^[A-Za-z_][A-Za-z0-9_-]{0,63}$/, 'expected a name of letters, digits, _ and -'),
  ),
);
const expiresInMs = v.optional(v.pipe(positive, v.maxValue(limits.waitMaxMs)));

const member = v.union([
  v.strictObject({ reversible: effect, resource: name, as, undo: effect }),
  v.strictObject({ read: effect, resource: name, as }),
  v.strictObject({ deferred: effect, resource: name, as }),
]);

const group = v.strictObject({
  name,
  resources: v.pipe(v.array(name), v.minLength(1)),
  members: v.array(member),
  invariants: v.optional(v.array(v.strictObject({ name, ...condition.entries }))),
  onFail: v.optional(v.picklist(['fail', 'continue'])),
});

export const operations = {
  effect: v.strictObject({ effect, as }),
  group: v.strictObject({ group, as }),
  act: v.strictObject({ act: v.strictObject({ ...effect.entries, expiresInMs }), as }),
  approve: v.strictObject({
    approve: v.strictObject({
      action: value,
      expiresInMs,
      onExpiry: v.optional(v.picklist(['deny', 'escalate', 'drop'])),
      fourEyes: v.optional(v.boolean()),
      maxEscalations: v.optional(v.pipe(natural, v.maxValue(limits.escalationsMax))),
    }),
    as,
  }),
  wait: v.strictObject({
    wait: v.strictObject({
      event: name,
      correlation: value,
      expiresInMs,
      onExpiry: v.optional(v.literal('continue')),
    }),
    as,
  }),
  sleep: v.strictObject({ sleep: v.pipe(positive, v.maxValue(limits.waitMaxMs)) }),
  remember: v.strictObject({
    remember: v.strictObject({
      id,
      subject: v.optional(id),
      purpose: name,
      content: value,
      expiresInMs,
    }),
    as,
  }),
  recall: v.strictObject({
    recall: v.strictObject({ subject: v.optional(id), purpose: name, limit: v.optional(positive) }),
    as,
  }),
  case: v.strictObject({
    case: v.strictObject({
      id,
      status: v.optional(name),
      state: v.optional(value),
      expectedVersion: v.optional(natural),
      deadline: v.optional(
        v.strictObject({
          name,
          at: v.optional(v.pipe(v.string(), v.isoTimestamp())),
          inMs: v.optional(positive),
        }),
      ),
    }),
    as,
  }),
  note: v.strictObject({ note: v.pipe(v.string(), v.minLength(1), v.maxLength(limits.noteBytes)) }),
  fail: v.strictObject({ fail: v.pipe(v.string(), v.minLength(1)), when: v.optional(condition) }),
} as const;

export type OperationName = keyof typeof operations;

/** Operations this build refuses by name: their machinery is not there yet. */
export const notYet: ReadonlySet<OperationName> = new Set([]);

export const stepShape = v.strictObject({
  id,
  needs: v.optional(v.array(id)),
  compensation: v.optional(v.picklist(['compensatable', 'pivot', 'unnecessary'])),
  do: v.array(v.unknown()),
  undo: v.optional(v.array(v.unknown())),
  output: v.optional(value),
});

export const planShape = v.strictObject({
  vars: v.optional(v.record(v.string(), v.unknown())),
  steps: v.pipe(v.array(stepShape), v.maxLength(limits.planSteps)),
  reply: v.optional(value),
});

export type Condition = v.InferOutput<typeof condition>;
export type PlanEffect = v.InferOutput<typeof effect>;
export type PlanApprove = v.InferOutput<typeof operations.approve>['approve'];
export type PlanGroup = v.InferOutput<typeof operations.group>['group'];
export type PlanWait = v.InferOutput<typeof operations.wait>['wait'];
export type Operation =
  | v.InferOutput<typeof operations.effect>
  | v.InferOutput<typeof operations.act>
  | v.InferOutput<typeof operations.group>
  | v.InferOutput<typeof operations.approve>
  | v.InferOutput<typeof operations.wait>
  | v.InferOutput<typeof operations.sleep>
  | v.InferOutput<typeof operations.remember>
  | v.InferOutput<typeof operations.recall>
  | v.InferOutput<typeof operations.case>
  | v.InferOutput<typeof operations.note>
  | v.InferOutput<typeof operations.fail>;

export interface PlanStep {
  readonly id: string;
  readonly needs: readonly string[];
  readonly compensation?: 'compensatable' | 'pivot' | 'unnecessary';
  readonly do: readonly Operation[];
  /** Absent when the step does not say how it is taken back. */
  readonly undo?: readonly Operation[];
  readonly output?: unknown;
}

export interface Plan {
  readonly vars: Readonly<Record<string, unknown>>;
  readonly steps: readonly PlanStep[];
  readonly reply?: unknown;
}
