// The sealed form of a payload: AES-256-GCM under a key derived for each message.
//
//   byte 0        format (1)
//   bytes 1..16   salt of the derivation
//   bytes 17..28  nonce
//   then          ciphertext and its 16-byte tag
// The message key is HKDF-SHA256(data key, salt, info = the framed context), so no data key ever counts
// its messages; the context is also the AAD. GCM does not commit to its key: one key per (scope,
// generation) is named beside every payload, which leaves nothing to exploit here.
//   T12  without the data key the bytes are noise; moved or edited bytes fail to open.
import { createCipheriv, createDecipheriv, createHmac, hkdfSync, randomBytes } from 'node:crypto';
import type { KeyRow } from '../../ports/subjects.ts';
import type { SealContext, Sealer } from '../../ports/vault.ts';
import { base64url, framed } from '../../protocol/digest.ts';
import { TurnstoneError } from '../../protocol/errors.ts';

const format = 1;
const saltBytes = 16;
const nonceBytes = 12;
const tagBytes = 16;
const headBytes = 1 + saltBytes + nonceBytes;

/** Bytes a seal adds to its plain text. */
export const envelopeBytes: number = headBytes + tagBytes;

/** Seals bytes; `random` is given by test vectors only. */
export function sealBytes(
  dataKey: Uint8Array,
  plain: Uint8Array,
  aad: Uint8Array,
  random: (count: number) => Uint8Array = randomBytes,
): Uint8Array {
  const salt = random(saltBytes);
  const nonce = random(nonceBytes);
  const cipher = createCipheriv('aes-256-gcm', messageKey(dataKey, salt, aad), nonce);
  cipher.setAAD(aad);
  return Buffer.concat([
    Uint8Array.of(format),
    salt,
    nonce,
    cipher.update(plain),
    cipher.final(),
    cipher.getAuthTag(),
  ]);
}

/** Opens bytes; throws `payload_unreadable` for any change of bytes, key or context. */
export function openBytes(dataKey: Uint8Array, sealed: Uint8Array, aad: Uint8Array): Uint8Array {
  if (sealed.byteLength < headBytes + tagBytes || sealed[0] !== format) {
    throw unreadable(`expected format ${format}, got ${sealed[0] ?? 'nothing'}`);
  }
  const salt = sealed.subarray(1, 1 + saltBytes);
  const nonce = sealed.subarray(1 + saltBytes, headBytes);
  const body = sealed.subarray(headBytes, sealed.byteLength - tagBytes);
  try {
    const key = messageKey(dataKey, salt, aad);
    const decipher = createDecipheriv('aes-256-gcm', key, nonce, { authTagLength: tagBytes });
    decipher.setAAD(aad);
    decipher.setAuthTag(sealed.subarray(sealed.byteLength - tagBytes));
    return Buffer.concat([decipher.update(body), decipher.final()]);
  } catch (cause) {
    throw unreadable('it does not open under its key and context', cause);
  }
}

/** The sealer of one data key. */
export function sealerOf(row: KeyRow, dataKey: Uint8Array): Sealer {
  const macKey = new Uint8Array(
    hkdfSync('sha256', dataKey, new Uint8Array(0), 'turnstone.mac.1', 32),
  );
  const bound = (context: SealContext): Uint8Array => {
    const { tenant, thread, turn, use, at } = context;
    return framed('turnstone.seal.1', [tenant, row.id, row.generation, thread, turn, use, at]);
  };
  return {
    scope: row.scope,
    generation: row.generation,
    seal: (plain, context) => sealBytes(dataKey, plain, bound(context)),
    open: (sealed, context) => openBytes(dataKey, sealed, bound(context)),
    mac: (domain, bytes) =>
      base64url(
        createHmac('sha256', macKey)
          .update(framed(domain, [bytes]))
          .digest(),
      ),
  };
}

function messageKey(dataKey: Uint8Array, salt: Uint8Array, aad: Uint8Array): Uint8Array {
  return new Uint8Array(hkdfSync('sha256', dataKey, salt, infoOf(aad), 32));
}

/** HKDF takes at most 1024 bytes of info; a longer context stands by its own derivation. */
function infoOf(aad: Uint8Array): Uint8Array {
  if (aad.byteLength <= 1_000) return aad;
  return createHmac('sha256', 'turnstone.info.1').update(aad).digest();
}

function unreadable(why: string, cause?: unknown): TurnstoneError {
  return new TurnstoneError('payload_unreadable', `a sealed payload cannot be read: ${why}`, {
    retry: 'never',
    cause,
  });
}
