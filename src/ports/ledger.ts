// What a tenant has spent in a period: rows a turn's rests leave behind, and their sum.
//   T11  every row stands for journal positions nobody counted before, so no crash bills twice or loses one (B19).
import type { TenantId } from '../protocol/ids.ts';
import type { Spend } from '../protocol/record.ts';

/** A ledger with so many uncounted rows that they should be rolled up. */
export interface LedgerNote {
  /** Hashed name of tenant and period. */
  readonly ledger: string;
}

export interface LedgerStore {
  /**
   * What the tenant's turns have been charged in a period up to their last rest. Asks for a roll-up when it read
   * many rows. Beside a roll-up it reads again; a row may be seen late, never twice.
   */
  spentIn(tenant: TenantId, period: string): Promise<Spend>;
  /** Ledgers somebody asked to be rolled up. */
  ledgersToRollUp(limit: number): Promise<readonly LedgerNote[]>;
  /** Adds rows to their sum and removes them, in transactions of both. Returns the rows it took. */
  rollUpLedger(note: LedgerNote): Promise<number>;
}
