// The reason of a stop request, opened for the owner's own record of it.
import type { StopRequest, TurnRef } from '../ports/store.ts';
import { Keyring } from './keyring.ts';
import { openPayload, sealContext } from './payloads.ts';
import type { Runtime } from './runtime.ts';

/** The text the asker gave; null once its key is gone. */
export async function stopReason(
  of: { readonly runtime: Runtime; readonly ref: TurnRef },
  request: StopRequest,
): Promise<unknown> {
  const { runtime, ref } = of;
  const sealer = await new Keyring(runtime.store, runtime.vault, ref).reader(request.scope);
  if (sealer === null) return null;
  return openPayload(runtime.store, sealer, sealContext(ref, 'stop', 0), request.reason);
}
