// A LangGraph checkpoint saver on Turnstone's store: SQLite or DynamoDB, sealed, large state in parts.
//
// Owns: LangGraph's contract (which checkpoint, which writes, in which order). Does not own: rows and keys
// (ports/graphs.ts), the stored form (graph-codec.ts), keys (graph-sealing.ts).
//   T5   storing the same checkpoint or the same writes twice changes nothing.
//   T12  everything but ids and order is sealed; a person's erasure ends every reading.
import { isDeepStrictEqual } from 'node:util';
import type { RunnableConfig } from '@langchain/core/runnables';
import {
  BaseCheckpointSaver,
  type ChannelVersions,
  type Checkpoint,
  type CheckpointListOptions,
  type CheckpointMetadata,
  type CheckpointPendingWrite,
  type CheckpointTuple,
  compareWritesSortKeys,
  copyCheckpoint,
  maxChannelVersion,
  type PendingWrite,
  type SerializerProtocol,
  TASKS,
  WRITES_IDX_MAP,
  type WritesSortKey,
  writesSortKey,
} from '@langchain/langgraph-checkpoint';
import type { GraphPlace, GraphStore, GraphTuple, GraphWrites } from '../../ports/graphs.ts';
import type { Vault } from '../../ports/vault.ts';
import { subjectId, type TenantId, tenantId, threadId } from '../../protocol/ids.ts';
import { limits } from '../../protocol/limits.ts';
import {
  decodeHead,
  dump,
  encodeHead,
  type LargeValue,
  load,
  type StoredChannels,
  sortValues,
  versionOf,
} from './graph-codec.ts';
import { checkpointId, namespaceOf, wanted } from './graph-config.ts';
import { GraphKeys, type GraphSealing, remember, type SealingStore } from './graph-sealing.ts';

export interface GraphSaverOptions {
  readonly store: SealingStore;
  readonly graphs: GraphStore;
  readonly vault: Vault;
  readonly tenant: string;
  /** The person these graphs are about: their erasure makes every checkpoint noise. Default: the tenant's own key. */
  readonly subject?: string;
  readonly serde?: SerializerProtocol;
}

/** Channels of recent checkpoints, so that the next put need not read its parent. */
const parentsMax = 500;

export class GraphSaver extends BaseCheckpointSaver {
  readonly #graphs: GraphStore;
  readonly #keys: GraphKeys;
  readonly #tenant: TenantId;
  readonly #parents = new Map<string, StoredChannels>();

  constructor(options: GraphSaverOptions) {
    super(options.serde);
    const { subject } = options;
    this.#graphs = options.graphs;
    this.#tenant = tenantId('tenant', options.tenant);
    this.#keys = new GraphKeys(
      options.store,
      options.vault,
      subject === undefined ? null : subjectId('subject', subject),
    );
  }

  async getTuple(config: RunnableConfig): Promise<CheckpointTuple | undefined> {
    const { thread, id } = wanted(config);
    if (thread === undefined) return undefined;
    const place = this.#place(thread, namespaceOf(config) ?? '');
    const found = await this.#graphs.tuple(place, id ?? null);
    return found === null ? undefined : this.#tuple(place, found);
  }

  async *list(
    config: RunnableConfig,
    options: CheckpointListOptions = {},
  ): AsyncGenerator<CheckpointTuple> {
    const { thread, id } = wanted(config);
    const before = wanted(options.before ?? {}).id ?? null;
    const filter = Object.entries(options.filter ?? {});
    let left = options.limit ?? Number.POSITIVE_INFINITY;
    for await (const place of this.#places(thread, namespaceOf(config))) {
      const rows = id === undefined ? this.#graphs.older(place, before) : this.#one(place, id);
      for await (const row of rows) {
        if (left <= 0) return;
        if (before !== null && row.checkpoint.id >= before) continue;
        if (filter.length > 0 && !(await this.#matches(place, row, filter))) continue;
        left -= 1;
        yield await this.#tuple(place, row);
      }
    }
  }

  async put(
    config: RunnableConfig,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    newVersions: ChannelVersions,
  ): Promise<RunnableConfig> {
    const { thread, id: parent } = wanted(config);
    const place = this.#place(required('thread_id', thread), namespaceOf(config) ?? '');
    const id = checkpointId('checkpoint.id', checkpoint.id);
    const sealing = this.#keys.of(place);
    const known = parent === undefined ? null : await this.#channels(place, parent);
    const copy = copyCheckpoint(checkpoint);
    const { inline, fresh, carried } = await sortValues(this.serde, copy, newVersions, known);
    const large = new Map<string, LargeValue>(carried);
    await Promise.all(
      [...fresh].map(async ([channel, bytes]) => {
        const stored = await sealing.seal(valueUse(id, channel), bytes, 0);
        large.set(channel, { version: versionOf(copy, channel), at: id, stored });
      }),
    );
    const [head, meta] = await Promise.all([
      encodeHead(this.serde, copy, inline, large).then((bytes) =>
        sealing.seal(`head ${id}`, bytes, limits.graphInlineBytes),
      ),
      dump(this.serde, metadata).then((bytes) =>
        sealing.seal(`metadata ${id}`, bytes, limits.graphInlineBytes),
      ),
    ]);
    await this.#graphs.putCheckpoint(place, {
      namespace: place.namespace,
      id,
      parent: parent ?? null,
      scope: head.scope,
      head: head.payload,
      metadata: meta.payload,
      values: [...large.values()].map(({ stored }) => stored),
    });
    const versions = [...inline.keys()].map((name) => [name, versionOf(copy, name)] as const);
    this.#remember(place, id, { inline: new Map(versions), large });
    return configOf(place, id);
  }

  async putWrites(
    config: RunnableConfig,
    writes: PendingWrite[],
    taskId: string,
    taskPath = '',
  ): Promise<void> {
    const { thread, id } = wanted(config);
    const place = this.#place(required('thread_id', thread), namespaceOf(config) ?? '');
    const checkpoint = required('checkpoint_id', id);
    const sealing = this.#keys.of(place);
    const indexed = writes.map((write, at) => [WRITES_IDX_MAP[write[0]] || at, write] as const);
    const store = async (
      slot: string,
      chosen: readonly (readonly [number, PendingWrite])[],
      once: boolean,
    ): Promise<readonly number[] | null> => {
      const values = await dump(
        this.serde,
        chosen.map(([, write]) => write),
      );
      const use = writesUse(checkpoint, taskId, slot);
      const { scope, payload } = await sealing.seal(use, values, limits.graphInlineBytes);
      const indices = chosen.map(([index]) => index);
      const row = { task: taskId, path: taskPath, slot, indices, scope, payload };
      return this.#graphs.putWrites(place, checkpoint, row, once);
    };
    // An error, an interrupt, an answer replace what stood there; a task's own writes stand once made.
    const special = new Map(indexed.filter(([index]) => index < 0).map((one) => [one[0], one]));
    await Promise.all([...special].map(([index, one]) => store(`s${-index}`, [one], false)));
    let plain = indexed.filter(([index]) => index >= 0);
    while (plain.length > 0) {
      const standing = await store(`r${plain[0]?.[0] ?? 0}`, plain, true);
      if (standing === null) return;
      plain = plain.filter(([index]) => !standing.includes(index));
    }
  }

  async deleteThread(thread: string): Promise<void> {
    const place = this.#place(thread, '');
    this.#parents.clear();
    await this.#graphs.drop(place);
  }

  #place(thread: string, namespace: string): GraphPlace {
    return { tenant: this.#tenant, thread: threadId('configurable.thread_id', thread), namespace };
  }

  async *#places(
    thread: string | undefined,
    namespace: string | undefined,
  ): AsyncGenerator<GraphPlace> {
    const threads =
      thread === undefined
        ? await this.#graphs.threads(this.#tenant)
        : [threadId('configurable.thread_id', thread)];
    for (const one of threads) {
      const place = { tenant: this.#tenant, thread: one };
      const names = namespace === undefined ? await this.#graphs.namespaces(place) : [namespace];
      for (const name of names) yield { ...place, namespace: name };
    }
  }

  async *#one(place: GraphPlace, id: string): AsyncGenerator<GraphTuple> {
    const found = await this.#graphs.tuple(place, id);
    if (found !== null) yield found;
  }

  async #matches(
    place: GraphPlace,
    { checkpoint }: GraphTuple,
    filter: readonly (readonly [string, unknown])[],
  ): Promise<boolean> {
    const metadata = await this.#metadata(this.#keys.of(place), checkpoint);
    return filter.every(([name, value]) => isDeepStrictEqual(Reflect.get(metadata, name), value));
  }

  async #metadata(
    sealing: GraphSealing,
    { id, scope, metadata }: GraphTuple['checkpoint'],
  ): Promise<CheckpointMetadata> {
    const bytes = await sealing.open(`metadata ${id}`, { scope, payload: metadata });
    return (await load(this.serde, bytes)) as CheckpointMetadata;
  }

  async #tuple(
    place: GraphPlace,
    { checkpoint: row, writes }: GraphTuple,
  ): Promise<CheckpointTuple> {
    const sealing = this.#keys.of(place);
    const { id, parent, scope } = row;
    const [head, metadata, pendingWrites] = await Promise.all([
      sealing.open(`head ${id}`, { scope, payload: row.head }),
      this.#metadata(sealing, row),
      this.#writes(sealing, id, writes),
    ]);
    const { checkpoint, inline, channels } = await decodeHead(this.serde, head, row.values);
    this.#remember(place, id, channels);
    const stored = await Promise.all([
      ...[...inline].map(async ([name, bytes]) => [name, await load(this.serde, bytes)] as const),
      ...[...channels.large].map(async ([name, { at, stored: value }]) => {
        const bytes = await sealing.open(valueUse(at, name), value);
        return [name, await load(this.serde, bytes)] as const;
      }),
    ]);
    const whole = { ...checkpoint, channel_values: Object.fromEntries(stored) };
    return {
      config: configOf(place, id),
      checkpoint:
        whole.v < 4 && parent !== null ? await this.#withSends(place, parent, whole) : whole,
      metadata,
      pendingWrites,
      ...(parent === null ? {} : { parentConfig: configOf(place, parent) }),
    };
  }

  /** Writes in the order a live run applies them: by path, task and index. */
  async #writes(
    sealing: GraphSealing,
    checkpoint: string,
    rows: readonly GraphWrites[],
  ): Promise<CheckpointPendingWrite[]> {
    const found = await Promise.all(
      rows.map(async ({ task, path, slot, indices, scope, payload }) => {
        const bytes = await sealing.open(writesUse(checkpoint, task, slot), { scope, payload });
        const writes = (await load(this.serde, bytes)) as readonly PendingWrite[];
        return writes.map(([channel, value], at): [WritesSortKey, CheckpointPendingWrite] => [
          writesSortKey(path, task, indices[at] ?? 0),
          [task, channel, value],
        ]);
      }),
    );
    return found
      .flat()
      .sort(([left], [right]) => compareWritesSortKeys(left, right))
      .map(([, write]) => write);
  }

  /** Checkpoints of a format before 4 kept pending sends as writes upon their parent. */
  async #withSends(place: GraphPlace, parent: string, whole: Checkpoint): Promise<Checkpoint> {
    const found = await this.#graphs.tuple(place, parent);
    const writes = await this.#writes(this.#keys.of(place), parent, found?.writes ?? []);
    const sends = writes.filter(([, channel]) => channel === TASKS).map(([, , value]) => value);
    const versions = Object.values(whole.channel_versions);
    const version =
      versions.length > 0 ? maxChannelVersion(...versions) : this.getNextVersion(undefined);
    return {
      ...whole,
      channel_values: { ...whole.channel_values, [TASKS]: sends },
      channel_versions: { ...whole.channel_versions, [TASKS]: version },
    };
  }

  /** What a parent holds: remembered, else read. */
  async #channels(place: GraphPlace, id: string): Promise<StoredChannels | null> {
    const known = this.#parents.get(nameOf(place, id));
    if (known !== undefined) return known;
    const row = await this.#graphs.checkpoint(place, id);
    if (row === null) return null;
    const sealed = { scope: row.scope, payload: row.head };
    const head = await this.#keys.of(place).open(`head ${id}`, sealed);
    return (await decodeHead(this.serde, head, row.values)).channels;
  }

  #remember(place: GraphPlace, id: string, channels: StoredChannels): void {
    remember(this.#parents, nameOf(place, id), channels, parentsMax);
  }
}

function nameOf({ thread, namespace }: GraphPlace, id: string): string {
  return JSON.stringify([thread, namespace, id]);
}

function valueUse(at: string, channel: string): string {
  return `value ${at} ${channel}`;
}

function writesUse(checkpoint: string, task: string, slot: string): string {
  return `writes ${checkpoint} ${task} ${slot}`;
}

function configOf({ thread, namespace }: GraphPlace, id: string): RunnableConfig {
  return { configurable: { thread_id: thread, checkpoint_ns: namespace, checkpoint_id: id } };
}

function required(field: string, value: string | undefined): string {
  if (value !== undefined) return value;
  throw new TypeError(`configurable.${field}: expected a text, got nothing`);
}
