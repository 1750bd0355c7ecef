// The stored form of a LangGraph checkpoint: small values beside it, large ones apart.
//
// Owns: what stands in the sealed bytes of a row. Does not own: sealing and storing (graph-saver.ts).
//   A value that did not change since the parent is stored again only when it is small; a large one is
//   named by where it was stored first, so a large state costs what changed of it.
import type {
  ChannelVersions,
  Checkpoint,
  SerializerProtocol,
} from '@langchain/langgraph-checkpoint';
import type { GraphValue } from '../../ports/graphs.ts';
import { TurnstoneError } from '../../protocol/errors.ts';
import { limits } from '../../protocol/limits.ts';
import { join, split } from './frames.ts';

/** A large value as a checkpoint names it: stored under checkpoint `at`, sealed for that place. */
export interface LargeValue {
  readonly version: string;
  readonly at: string;
  readonly stored: GraphValue;
}

/** Which version of each channel a checkpoint holds, and where the large ones stand. */
export interface StoredChannels {
  readonly inline: ReadonlyMap<string, string>;
  readonly large: ReadonlyMap<string, LargeValue>;
}

/** Values of a checkpoint sorted by where they go. */
export interface SortedValues {
  readonly inline: ReadonlyMap<string, Uint8Array>;
  /** To be stored with this checkpoint. */
  readonly fresh: ReadonlyMap<string, Uint8Array>;
  readonly carried: ReadonlyMap<string, LargeValue>;
}

const utf8 = new TextEncoder();
const text = new TextDecoder();

/** A typed value as one byte string. */
export async function dump(serde: SerializerProtocol, value: unknown): Promise<Uint8Array> {
  const [type, bytes] = await serde.dumpsTyped(value);
  return join([utf8.encode(type), bytes]);
}

export async function load(serde: SerializerProtocol, bytes: Uint8Array): Promise<unknown> {
  const [type, value] = split(bytes);
  if (type === undefined || value === undefined) throw misread('a type and a value');
  return serde.loadsTyped(text.decode(type), value);
}

/**
 * Sorts the values of a checkpoint. A channel that is neither new nor known from the parent at the same version
 * is left out, as the savers of LangGraph do.
 */
export async function sortValues(
  serde: SerializerProtocol,
  checkpoint: Checkpoint,
  newVersions: ChannelVersions,
  parent: StoredChannels | null,
): Promise<SortedValues> {
  const inline = new Map<string, Uint8Array>();
  const fresh = new Map<string, Uint8Array>();
  const carried = new Map<string, LargeValue>();
  for (const [channel, value] of Object.entries(checkpoint.channel_values)) {
    const version = versionOf(checkpoint, channel);
    const isNew = Object.hasOwn(newVersions, channel);
    const large = parent?.large.get(channel);
    if (!isNew && large?.version === version) {
      carried.set(channel, large);
      continue;
    }
    if (!isNew && parent?.inline.get(channel) !== version) continue;
    const bytes = await dump(serde, value);
    if (bytes.byteLength <= limits.graphValueInlineBytes) inline.set(channel, bytes);
    else fresh.set(channel, bytes);
  }
  return { inline, fresh, carried };
}

/** The bytes of a checkpoint's head; `large` in the order of the row's values. */
export async function encodeHead(
  serde: SerializerProtocol,
  checkpoint: Checkpoint,
  inline: ReadonlyMap<string, Uint8Array>,
  large: ReadonlyMap<string, LargeValue>,
): Promise<Uint8Array> {
  const named = [...large].map(([channel, { version, at }]) => [channel, version, at]);
  const index = { inline: [...inline.keys()], large: named };
  const bare = await dump(serde, { ...checkpoint, channel_values: {} });
  return join([utf8.encode(JSON.stringify(index)), bare, ...inline.values()]);
}

export interface DecodedHead {
  readonly checkpoint: Checkpoint;
  readonly inline: ReadonlyMap<string, Uint8Array>;
  readonly channels: StoredChannels;
}

export async function decodeHead(
  serde: SerializerProtocol,
  bytes: Uint8Array,
  values: readonly GraphValue[],
): Promise<DecodedHead> {
  const [indexBytes, bare, ...rest] = split(bytes);
  if (indexBytes === undefined || bare === undefined) throw misread('an index and a checkpoint');
  const index = JSON.parse(text.decode(indexBytes)) as {
    readonly inline: readonly string[];
    readonly large: readonly (readonly [channel: string, version: string, at: string])[];
  };
  if (rest.length !== index.inline.length || values.length !== index.large.length) {
    throw misread(`${index.inline.length} values and ${index.large.length} large ones`);
  }
  const checkpoint = (await load(serde, bare)) as Checkpoint;
  const inline = new Map(rest.map((value, at) => [index.inline[at] ?? '', value]));
  const large = new Map(
    values.map((stored, slot): [string, LargeValue] => {
      const [channel, version, at] = index.large[slot] ?? ['', '', ''];
      return [channel, { version, at, stored }];
    }),
  );
  const versions = index.inline.map((name) => [name, versionOf(checkpoint, name)] as const);
  return { checkpoint, inline, channels: { inline: new Map(versions), large } };
}

/** Numbers and texts are different versions. */
export function versionOf(checkpoint: Checkpoint, channel: string): string {
  return JSON.stringify(checkpoint.channel_versions[channel] ?? null);
}

function misread(expected: string): TurnstoneError {
  return new TurnstoneError('record_skew', `stored graph checkpoint: expected ${expected}`, {
    retry: 'never',
    details: { expected },
  });
}
