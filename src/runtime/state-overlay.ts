// The thread's state as a turn sees it: the checkpoint under what the turn has staged (T1).
//   CS-5 what a thread kept reads back untrusted: it may be anything an earlier turn had seen.
import { encode } from '../protocol/canonical.ts';
import type { StateChange } from '../protocol/checkpoint.ts';
import { applyChange, foldState, valueAt } from '../protocol/checkpoint.ts';
import { TurnstoneError } from '../protocol/errors.ts';
import { undeclared } from '../protocol/labels.ts';
import type { Pass } from './pass.ts';
import type { ThreadState } from './turn-context.ts';

const thread = undeclared('thread');

export function stateOf(pass: Pass): ThreadState {
  const { setup, changes } = pass;
  const current = (key: string): unknown =>
    valueAt(foldState(setup.state, setup.scope, changesOf(changes, key)), key);
  const stage = (change: StateChange): void => {
    encode('value' in change ? change.value : null);
    if (change.op === 'add') checkSum(change.key, change.by);
    applyChange(change.key, current(change.key), change);
    changes.push(change);
  };
  return {
    get: (key) => {
      const value = current(key);
      if (value !== undefined) pass.labels.see(thread);
      return value;
    },
    set: (key, value) => stage({ op: 'set', key, value }),
    delete: (key) => stage({ op: 'delete', key }),
    append: (key, value) => stage({ op: 'append', key, value }),
    add: (key, by) => stage({ op: 'add', key, by }),
  };
}

/** A sum that is not exact could not be written as one; refused before anything acts. */
function checkSum(key: string, by: number): void {
  if (Number.isSafeInteger(by)) return;
  const field = `state.add(${JSON.stringify(key)})`;
  throw new TurnstoneError('invalid_request', `${field}: expected a whole number, got ${by}`, {
    retry: 'never',
    details: { field, expected: 'a whole number', got: String(by) },
  });
}

function changesOf(changes: readonly StateChange[], key: string): readonly StateChange[] {
  return changes.filter((change) => change.key === key);
}
