// Every limit of the platform by name and unit, and how limits relate. Enforced before anything acts [T11].
const kib = 1024;
const mib = 1024 * kib;

export const limits = Object.freeze({
  /** Characters of a caller's id. */
  idCharacters: 256,
  /** Characters of a step name or an effect kind. */
  nameCharacters: 256,
  /** Characters of a business key. */
  businessKeyCharacters: 512,
  /** Bytes of a request body, over HTTP and queue alike. */
  requestBodyBytes: mib,
  /** Bytes of an effect's answer and of any stored value. */
  effectAnswerBytes: 4 * mib,
  /** Bytes of one stored value in its canonical form, tags included. */
  payloadBytesMax: 5 * mib,
  /** Bytes of a value kept beside its record; larger ones go to parts. */
  inlinePayloadBytes: 2 * kib,
  /** Bytes of a graph checkpoint kept in its row; what is over goes to parts. */
  graphInlineBytes: 16 * kib,
  /** Bytes of one value of a graph kept in the checkpoint; a larger one is stored once and named by later checkpoints. */
  graphValueInlineBytes: 4 * kib,
  /** Rows one look for a graph's newest checkpoint reads at once. */
  graphRowsPage: 12,
  /** Bytes of one stored part. */
  partBytes: 380 * kib,
  /** Bytes of one stored item, as the table counts them. */
  itemBytes: 409_600,
  /** Bytes of records in one journal position. */
  batchBytes: 300 * kib,
  /** Bytes of a record body without its payload. */
  recordBodyBytes: 16 * kib,
  transactionItems: 100,
  transactionBytes: 4 * mib,
  /** Bytes of checkpoint segments before a snapshot is taken. */
  checkpointTailBytes: 3 * kib,
  /** Bytes of a thread's whole folded state. */
  checkpointBytesMax: 256 * kib,
  /** Nesting of a stored value. */
  valueDepth: 256,
  planSteps: 100,
  planParallel: 64,
  /** Steps of one turn of a code agent. */
  stepsPerTurnMax: 10_000,
  /** Entries of the caller's own tables in one group's transaction; the position takes the hundredth. */
  atomicEntriesMax: 99,
  /** Deferred members of one group. */
  groupMembersMax: 100,
  /** Announced attempts of one turn. */
  effectsPerTurnMax: 20_000,
  /** Bytes of one note. */
  noteBytes: 4 * kib,
  /** Bytes of an error text that is kept. */
  errorTextBytes: 2 * kib,
  leaseMs: 30_000,
  leaseMinMs: 2_000,
  turnTimeoutMs: 60_000,
  drainMs: 10_000,
  effectTimeoutMs: 30_000,
  effectTimeoutMaxMs: 900_000,
  retryAttempts: 3,
  retryAttemptsMax: 1_000,
  retryInitialMs: 100,
  retryMultiplier: 2,
  retryMaxMs: 10_000,
  /** Longest wait a peer may name before the next attempt. */
  retryAdviceMaxMs: 60_000,
  /** A synchronous call waits this long before it answers 202. */
  syncWaitMs: 25_000,
  syncWaitMaxMs: 25_000,
  /** A stop request is looked for at a boundary when the last look is this old. */
  stopLookMs: 1_000,
  /** What a tenant has spent is read again before an attempt when the last look is this old. */
  ledgerLookMs: 1_000,
  /** Rows of a ledger somebody reads before they are rolled up. */
  ledgerRowsMax: 50,
  /** Messages of one delivery to a consumer. */
  inboxBatch: 10,
  /** Deliveries of one message before it is parked. */
  inboxTriesMax: 20,
  /** Longest replay of one turn in a check before a deployment. */
  checkReplayMs: 10_000,
  /** Longest time a message that a newer build must handle is hidden for. */
  heldMaxMs: 3_600_000,
  /** Passes a takeover is tried with before the turn is left to the next sweep. */
  beginRoundsMax: 16,
  sweepPeriodMs: 1_000,
  /** Age of an unsent outbox entry before the sweeper sends it. */
  unsentMs: 2_000,
  sweepPageRows: 100,
  workShards: 16,
  journalPageRecords: 1_000,
  /** Messages one send call takes. */
  queueBatch: 10,
  /** A process looks this often for messages that another one sent to a queue in a file. */
  queuePollMs: 100,
  /** Queue messages are deduplicated by id for this long. */
  queueDedupMs: 300_000,
  waitsPerTransaction: 40,
  /** Open waits of one turn. */
  waitsPerTurnMax: 1_000,
  /** Wider requests after an approval that expired. */
  escalationsMax: 10,
  /** Events one turn may tell of, its commit left out. */
  eventsPerTurnMax: 256,
  /** Acts staged between two suspensions, or before the end. */
  actsPerCommitMax: 20,
  /** Deadlines nearer than this are met by a message of their own; the sweeper meets all. */
  alarmMaxMs: 900_000,
  /** How long an approval or an event wait stands by default. */
  waitMs: 86_400_000,
  /** Longest deadline of a wait, a timer or an act. */
  waitMaxMs: 366 * 86_400_000,
  /** How long a deferred act may wait for the effector by default. */
  actMs: 3_600_000,
  /** Characters of what a wait is shown as. */
  summaryCharacters: 200,
  /** Facts one turn may remember. */
  memoriesPerTurnMax: 30,
  /** Bytes of one fact's content. */
  memoryBytesMax: 100 * kib,
  /** Bytes of a text to search by. */
  searchTextBytes: 8 * kib,
  /** Vectors the built-in index keeps in a process. */
  searchVectorsKept: 10_000,
  /** Characters of a label's source. */
  labelSourceCharacters: 200,
  /** Facts one fact may be made from. */
  memorySourcesMax: 20,
  /** Writes of one transaction of the store. */
  transactionWrites: 100,
  /** Rounds over a subject that changes under a removal, before the store counts as unavailable. */
  removalRoundsMax: 32,
  /** Facts one recall may bring. */
  recallMax: 100,
  recallDefault: 20,
  /** Versions a case keeps the writers of, so that a repeat finds its own write. */
  caseWritersMax: 50,
  /** Deadlines of one case. */
  caseDeadlinesMax: 50,
  /** Turns a case names. */
  caseTurnsMax: 200,
  /** Answers a thread's replay cache keeps. */
  replayEntriesMax: 64,
  /** How long an answer may be served again, from when it was recorded. */
  replayCacheMs: 6 * 3_600_000,
  /** Bytes of all answers a replay cache may serve, what each entry takes included. */
  replayCacheBytes: 100 * kib,
  /** Bytes an entry counts beside its answer. */
  replayEntryBytes: 128,
  /** Failures of a model in a row after which its circuit opens. */
  circuitFailures: 5,
  /** How long an open circuit asks nobody. */
  circuitOpenMs: 30_000,
  /** A single lookup of approvals. */
  approvalsPage: 100,
} as const);

/** Throws naming the first relation that limits do not keep. */
export function checkLimits(of: Readonly<Record<keyof typeof limits, number>>): void {
  const relations: readonly (readonly [holds: boolean, relation: string])[] = [
    [of.partBytes + kib < of.itemBytes, 'a part with its key fits an item'],
    [of.batchBytes + 64 * kib < of.itemBytes, 'a position with its key fits an item'],
    [of.leaseMs >= of.leaseMinMs, 'the default lease is legal'],
    [of.effectTimeoutMs <= of.turnTimeoutMs, 'an effect may use its whole timeout in a turn'],
    [of.payloadBytesMax >= of.effectAnswerBytes, 'every legal answer can be stored'],
    [
      of.replayEntriesMax * of.replayEntryBytes < of.replayCacheBytes,
      'a full replay cache of digests fits its bytes',
    ],
    [of.retryInitialMs <= of.retryMaxMs, 'the first wait is at most the longest'],
  ];
  for (const [holds, relation] of relations) {
    if (!holds) throw new Error(`limits: ${relation}`);
  }
}

checkLimits(limits);
