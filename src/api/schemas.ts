// What requests and answers look like: the schemas that validate the one and document both.
import * as v from 'valibot';
import { limits } from '../protocol/limits.ts';
import { turnStatuses } from '../protocol/turn-status.ts';

export const idSchema = v.pipe(
  v.string(),
  v.regex(/^[A-Za-z0-9._:@-]{1,256}$/),
  v.check((id) => id !== '.' && id !== '..', 'not "." or ".."'),
  v.description('1 to 256 characters of A-Z a-z 0-9 . _ : - @, not "." or ".."'),
);

const count = (least: number) => v.optional(v.pipe(v.number(), v.integer(), v.minValue(least)));

export const budgetSchema = v.strictObject({
  steps: count(1),
  effects: count(1),
  tokens: count(1),
  minorUnits: count(1),
  replans: count(0),
  denials: count(0),
  wallClockMs: count(1),
  parallel: count(1),
  egressBytes: count(0),
});

export const startTurnSchema = v.strictObject({
  turnId: idSchema,
  agent: idSchema,
  input: v.optional(v.unknown()),
  subject: v.optional(idSchema),
  budget: v.optional(budgetSchema),
});

const instant = v.pipe(v.string(), v.isoTimestamp());

export const turnSchema = v.object({
  threadId: v.string(),
  turnId: v.string(),
  agent: v.string(),
  status: v.picklist(turnStatuses),
  replayed: v.boolean(),
  revision: v.pipe(v.number(), v.integer()),
  currentRevision: v.optional(v.pipe(v.number(), v.integer())),
  result: v.optional(v.unknown()),
  error: v.optional(
    v.object({
      code: v.string(),
      message: v.string(),
      step: v.optional(v.string()),
      effectKey: v.optional(v.string()),
    }),
  ),
  waits: v.array(
    v.object({
      id: v.string(),
      kind: v.picklist(['approval', 'event', 'timer']),
      until: instant,
      summary: v.string(),
      digest: v.optional(v.string()),
    }),
  ),
  undecided: v.array(
    v.object({
      effectKey: v.string(),
      step: v.string(),
      phase: v.picklist(['forward', 'compensating']),
      kind: v.string(),
      doubt: v.picklist(['announced', 'inconclusive']),
      since: instant,
    }),
  ),
  spend: v.object({
    steps: v.number(),
    effects: v.number(),
    attempts: v.number(),
    tokens: v.number(),
    minorUnits: v.number(),
  }),
  erased: v.optional(v.literal(true)),
  createdAt: instant,
  updatedAt: instant,
});

export const threadSchema = v.object({
  threadId: v.string(),
  agent: v.nullable(v.string()),
  revision: v.number(),
  openTurn: v.nullable(v.string()),
  blockedBy: v.nullable(v.string()),
});

export const journalSchema = v.object({
  records: v.array(
    v.looseObject({
      seq: v.number(),
      kind: v.string(),
      at: instant,
      step: v.optional(v.string()),
      phase: v.optional(v.string()),
      effectKey: v.optional(v.string()),
      attempt: v.optional(v.number()),
      prevHash: v.string(),
      hash: v.string(),
    }),
  ),
  head: v.object({ seq: v.number(), hash: v.string() }),
  verified: v.union([v.literal(true), v.object({ firstBad: v.number(), reason: v.string() })]),
  late: v.optional(
    v.array(
      v.looseObject({
        effectKey: v.string(),
        outcome: v.picklist(['landed', 'did_not_happen']),
        at: instant,
        owner: v.string(),
      }),
    ),
  ),
});

export const verdictSchema = v.looseObject({
  verdict: v.picklist(['verified', 'diverged', 'cannot_replay']),
  /** Of a divergence in its calls: which one edit it is, and whether that explains the whole journal. */
  change: v.optional(
    v.object({
      class: v.picklist(['inserted', 'removed', 'swapped', 'renamed', 'arguments', 'replaced']),
      explains: v.picklist(['all', 'part']),
      ordinal: v.optional(v.number()),
      step: v.optional(v.string()),
    }),
  ),
});

export const problemSchema = v.looseObject({
  type: v.string(),
  title: v.string(),
  status: v.number(),
  code: v.string(),
  detail: v.string(),
});

const words = v.pipe(v.string(), v.trim(), v.minLength(1), v.maxLength(4_096));

export const assertSchema = v.strictObject({
  outcome: v.picklist(['landed', 'did_not_happen']),
  output: v.optional(v.unknown()),
  note: words,
});

export const reasonSchema = v.strictObject({ reason: words });

export const resumeSchema = v.strictObject({
  reason: v.optional(words),
  budget: v.optional(budgetSchema),
});

export const recordedSchema = v.object({ recorded: v.boolean() });

export const attentionSchema = v.object({
  items: v.array(
    v.object({
      condition: v.string(),
      count: v.number(),
      atLeast: v.boolean(),
      subjects: v.array(v.object({ threadId: v.string(), turnId: v.string(), since: instant })),
      remedy: v.string(),
    }),
  ),
  notChecked: v.array(v.string()),
});

export const decisionSchema = v.strictObject({
  decision: v.picklist(['approve', 'deny']),
  digest: v.pipe(v.string(), v.minLength(1)),
  note: v.optional(words),
});

export const approvalSchema = v.object({
  id: v.string(),
  threadId: v.string(),
  turnId: v.string(),
  status: v.picklist(['pending', 'approved', 'denied', 'expired']),
  summary: v.string(),
  action: v.optional(v.unknown()),
  digest: v.string(),
  requestedBy: v.string(),
  fourEyes: v.boolean(),
  until: instant,
  createdAt: instant,
  decision: v.optional(
    v.object({
      decision: v.picklist(['approve', 'deny']),
      by: v.string(),
      at: instant,
      note: v.unknown(),
    }),
  ),
});

export const approvalsSchema = v.object({
  items: v.array(approvalSchema),
  cursor: v.optional(v.string()),
});

const pageLimit = v.optional(
  v.pipe(
    v.string(),
    v.regex(/^\d{1,3}$/, 'a whole number'),
    v.check(
      (text) => Number(text) >= 1 && Number(text) <= limits.approvalsPage,
      `1 to ${limits.approvalsPage}`,
    ),
  ),
);

export const approvalsQuerySchema = v.strictObject({
  status: v.optional(v.picklist(['pending', 'all'])),
  limit: pageLimit,
  cursor: v.optional(v.pipe(v.string(), v.maxLength(400))),
});

const eventName = v.pipe(v.string(), v.minLength(1), v.maxLength(limits.nameCharacters));

export const eventSchema = v.strictObject({
  source: eventName,
  id: eventName,
  type: eventName,
  correlation: v.unknown(),
  data: v.optional(v.unknown()),
});

export const receiptSchema = v.object({
  receiptId: v.string(),
  threadId: v.string(),
  turnId: v.string(),
  kind: v.string(),
  key: v.unknown(),
  step: v.string(),
  status: v.picklist(['prepared', 'completed', 'failed', 'uncertain']),
  effectKey: v.nullable(v.string()),
  createdAt: instant,
  updatedAt: instant,
});

export const receiptsSchema = v.object({ items: v.array(receiptSchema) });

export const receiptsQuerySchema = v.strictObject({
  threadId: v.optional(idSchema),
  status: v.optional(v.picklist(['prepared', 'completed', 'failed', 'uncertain'])),
});

export const memoriesQuerySchema = v.strictObject({ purpose: v.optional(v.string()) });

export const memoriesSchema = v.object({
  items: v.array(
    v.object({
      id: v.string(),
      version: v.number(),
      purpose: v.string(),
      content: v.unknown(),
      trust: v.picklist(['trusted', 'untrusted']),
      at: instant,
    }),
  ),
});

export const heldSchema = v.object({ held: v.boolean() });

export const erasureSchema = v.object({
  erasure: v.object({
    id: v.string(),
    state: v.picklist(['keys_destroyed', 'complete', 'cleanup_failed']),
    by: v.string(),
    at: instant,
    destroyed: v.object({ items: v.number(), versions: v.number() }),
  }),
});

export const generationSchema = v.object({ generation: v.number() });

export const caseSchema = v.object({
  id: v.string(),
  status: v.string(),
  version: v.number(),
  state: v.unknown(),
  deadlines: v.array(
    v.object({
      name: v.string(),
      at: instant,
      state: v.picklist(['open', 'met', 'breached']),
    }),
  ),
  turns: v.array(v.object({ threadId: v.string(), turnId: v.string() })),
});

export const storedSchema = v.object({ stored: v.boolean() });

export const journalQuerySchema = v.strictObject({
  after: v.optional(v.pipe(v.string(), v.regex(/^\d{1,15}$/, 'a whole number'))),
  limit: v.optional(
    v.pipe(
      v.string(),
      v.regex(/^\d{1,4}$/, 'a whole number'),
      v.check(
        (text) => Number(text) >= 1 && Number(text) <= limits.journalPageRecords,
        `1 to ${limits.journalPageRecords}`,
      ),
    ),
  ),
});
