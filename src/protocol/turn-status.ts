// Statuses of a turn and what each one allows (page 01, 0.1). Pure data.
/** Every status a caller may see. */
export const turnStatuses = [
  'running',
  'suspended',
  'succeeded',
  'failed',
  'cancelled',
  'exhausted',
  'quarantined',
  'abandoned',
] as const;
export type TurnStatus = (typeof turnStatuses)[number];

/** A status that is the conclusion of a pass; the last conclusion in a journal wins. */
export type Conclusion = Exclude<TurnStatus, 'running' | 'suspended'>;

const sealed: ReadonlySet<TurnStatus> = new Set(['succeeded', 'cancelled', 'abandoned']);

/** True when nothing may ever be appended again (CH-5). */
export function seals(status: TurnStatus): boolean {
  return sealed.has(status);
}

/** True for every status that ends a pass with a RunConcluded record. */
export function isConclusion(status: TurnStatus): status is Conclusion {
  return status !== 'running' && status !== 'suspended';
}

/** Severity when siblings stop together (CC-2): a higher figure wins, ready order breaks ties. */
export function severity(status: TurnStatus): number {
  switch (status) {
    case 'quarantined':
    case 'abandoned':
      return 4;
    case 'failed':
    case 'cancelled':
      return 3;
    case 'exhausted':
      return 2;
    case 'suspended':
      return 1;
    case 'running':
    case 'succeeded':
      return 0;
  }
}

/** Reads a status from stored text; an unknown word fails closed as `quarantined` (page 01, 0.1). */
export function parseStatus(text: string): TurnStatus {
  const known: readonly string[] = turnStatuses;
  return known.includes(text) ? (text as TurnStatus) : 'quarantined';
}
