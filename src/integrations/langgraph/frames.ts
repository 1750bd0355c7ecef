// Several byte strings in one: a count, then each with its length in front.
import { TurnstoneError } from '../../protocol/errors.ts';

/** Joins byte strings; `split` gives them back. */
export function join(parts: readonly Uint8Array[]): Uint8Array {
  const head = Buffer.alloc(4 * (parts.length + 1));
  head.writeUInt32BE(parts.length, 0);
  for (const [index, part] of parts.entries()) head.writeUInt32BE(part.byteLength, 4 * (index + 1));
  return Buffer.concat([head, ...parts]);
}

/** Throws `record_skew` for bytes that `join` did not make. */
export function split(bytes: Uint8Array): readonly Uint8Array[] {
  const whole = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (whole.byteLength < 4) throw skewed(4, whole.byteLength);
  const count = whole.readUInt32BE(0);
  let from = 4 * (count + 1);
  if (whole.byteLength < from) throw skewed(from, whole.byteLength);
  const parts = Array.from({ length: count }, (_, index) => {
    const end = from + whole.readUInt32BE(4 * (index + 1));
    const part = whole.subarray(from, end);
    from = end;
    return part;
  });
  if (from !== whole.byteLength) throw skewed(from, whole.byteLength);
  return parts;
}

function skewed(expected: number, got: number): TurnstoneError {
  return new TurnstoneError(
    'record_skew',
    `stored frames: expected ${expected} bytes, got ${got}`,
    { retry: 'never', details: { expected, got } },
  );
}
