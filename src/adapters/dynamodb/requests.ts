// Table operations as SDK commands, built once for a write so that every resend carries the same bytes.
import {
  DeleteItemCommand,
  PutItemCommand,
  type TransactWriteItem,
  TransactWriteItemsCommand,
  UpdateItemCommand,
} from '@aws-sdk/client-dynamodb';
import type { LentEntry } from '../../ports/lent.ts';
import { TurnstoneError } from '../../protocol/errors.ts';
import type { Table, WriteOp } from '../table/driver.ts';
import { toAttributes, toKey } from './attribute-values.ts';
import { Expressions } from './expressions.ts';

/** Physical table names. */
export type TableNames = Readonly<Record<Table, string>>;

export type WriteCommand =
  | PutItemCommand
  | UpdateItemCommand
  | DeleteItemCommand
  | TransactWriteItemsCommand;

/** One operation as a plain conditional write, several (or a check, or lent entries) as one transaction. */
export function writeCommand(
  tables: TableNames,
  ops: readonly WriteOp[],
  lent: readonly LentEntry[] = [],
): WriteCommand {
  const [first] = ops;
  if (lent.length > 0) {
    const TransactItems = [
      ...ops.map((op) => action(tables, op)),
      ...lent.map((entry) => lentAction(tables, entry)),
    ];
    return new TransactWriteItemsCommand({ TransactItems });
  }
  if (ops.length === 1 && first !== undefined && first.kind !== 'check')
    return single(tables, first);
  return new TransactWriteItemsCommand({ TransactItems: ops.map((op) => action(tables, op)) });
}

/** An entry as its owner wrote it. Throws `store_rejected` for one that names a table of the store itself. */
function lentAction(tables: TableNames, entry: LentEntry): TransactWriteItem {
  const action = entry as TransactWriteItem;
  const { Put, Update, Delete, ConditionCheck } = action;
  const name = (Put ?? Update ?? Delete ?? ConditionCheck)?.TableName;
  const own = Object.values(tables).some((table) => name === table || name?.endsWith(`/${table}`));
  if (name !== undefined && !own) return action;
  const got = name === undefined ? 'no table' : `"${name}", which is the store's`;
  throw new TurnstoneError('store_rejected', `entry: expected a table of your own, got ${got}`, {
    retry: 'never',
  });
}

function single(tables: TableNames, op: WriteOp): WriteCommand {
  const parts = action(tables, op);
  if (parts.Put !== undefined) return new PutItemCommand(parts.Put);
  if (parts.Update !== undefined) return new UpdateItemCommand(parts.Update);
  if (parts.Delete !== undefined) return new DeleteItemCommand(parts.Delete);
  throw new TypeError('a check is no write of its own');
}

function action(tables: TableNames, op: WriteOp): TransactWriteItem {
  const expressions = new Expressions();
  const condition = expressions.condition(op.when);
  const common = {
    TableName: tables[op.key.table],
    ...(condition === undefined
      ? {}
      : {
          ConditionExpression: condition,
          ReturnValuesOnConditionCheckFailure: 'ALL_OLD' as const,
        }),
  };
  const Key = toKey(op.key);
  switch (op.kind) {
    case 'put':
      return {
        Put: { ...common, Item: { ...Key, ...toAttributes(op.item) }, ...expressions.aliases() },
      };
    case 'update': {
      const UpdateExpression = expressions.update(op.change);
      return { Update: { ...common, Key, UpdateExpression, ...expressions.aliases() } };
    }
    case 'delete':
      return { Delete: { ...common, Key, ...expressions.aliases() } };
    case 'check':
      if (condition === undefined) throw new TypeError('a check without a condition');
      return {
        ConditionCheck: {
          ...common,
          ConditionExpression: condition,
          Key,
          ...expressions.aliases(),
        },
      };
  }
}
