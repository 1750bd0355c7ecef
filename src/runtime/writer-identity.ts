// Who a pass, or a person beside it, is to the store.
import type { Head, Writer } from '../ports/store.ts';
import { base64url } from '../protocol/digest.ts';
import type { Runtime } from './runtime.ts';

/** The identity of a new pass over a head: its token is fresh, its epoch the next. */
export function newWriter(runtime: Runtime, head: Head | null): Writer {
  return {
    token: base64url(runtime.entropy.bytes(16)),
    owner: runtime.owner,
    epoch: (head?.epoch ?? 0) + 1,
    cancelsSeen: head?.cancels ?? 0,
  };
}

/** A person writes under the epoch that stands: nothing is claimed. */
export function personWriter(runtime: Runtime, head: Head): Writer {
  return {
    token: base64url(runtime.entropy.bytes(16)),
    owner: runtime.owner,
    epoch: head.epoch,
    cancelsSeen: head.cancels,
  };
}
