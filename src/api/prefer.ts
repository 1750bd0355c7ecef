// The Prefer header (RFC 7240) as far as turns know it: `respond-async` and `wait=N`.
import { TurnstoneError } from '../protocol/errors.ts';
import { limits } from '../protocol/limits.ts';

export interface Preference {
  readonly async: boolean;
  /** Milliseconds to wait at most; null when the caller did not say. */
  readonly waitMs: number | null;
}

/** Reads the header; unknown preferences are ignored as the RFC asks, a malformed wait is refused. */
export function parsePrefer(header: string | undefined): Preference {
  let preference: Preference = { async: false, waitMs: null };
  for (const part of (header ?? '').split(/[,;]/)) {
    const [name = '', value = ''] = part.split('=').map((text) => text.trim());
    if (name.toLowerCase() === 'respond-async') preference = { ...preference, async: true };
    if (name.toLowerCase() !== 'wait') continue;
    const text = value.replace(/^"(.*)"$/, '$1');
    if (!/^\d{1,6}$/.test(text)) {
      throw new TurnstoneError(
        'invalid_request',
        `Prefer wait: expected whole seconds, got "${value}"`,
        {
          retry: 'never',
          details: { path: 'Prefer', got: value },
        },
      );
    }
    preference = { ...preference, waitMs: Math.min(Number(text) * 1000, limits.syncWaitMaxMs) };
  }
  return preference;
}
