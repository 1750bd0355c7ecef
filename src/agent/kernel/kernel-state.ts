// The kernel's checkpoint in the thread's state: what is kept, and how little of it a turn rewrites.
//
//   K-60  nothing but messages, facts, agenda and one interaction; the fingerprint, the revision and the receipts
//         are the runtime's own, and workflow state belongs in facts.
//   K-61  messages are bounded here; the journals hold the whole transcript.
//   T1    each fact and each capability's agenda is a key of its own, so that a turn that was reopened late loses
//         nobody's update.
import { decode, encode } from '../../protocol/canonical.ts';
import type { ThreadState } from '../../runtime/turn-context.ts';
import type { FactKey } from './capability.ts';

export interface KeptMessage {
  /** Absolute, from 0, whatever is still kept (K-62). */
  readonly index: number;
  readonly turn: string;
  readonly role: 'user' | 'assistant';
  readonly text: string;
  /** Verbatim text that models are told is there, not what it says (K-92). */
  readonly protected?: boolean;
}

export interface FactRecord {
  readonly value: unknown;
  /** The evidence itself, not its id. */
  readonly evidence: readonly string[];
  readonly producedBy: {
    readonly capability: string;
    readonly version: number;
    readonly turn: string;
    readonly step: string;
  };
  readonly dependsOn: readonly FactKey[];
}

export type AgendaStatus =
  | 'ready'
  | 'waiting_input'
  | 'waiting_facts'
  | 'waiting_confirmation'
  | 'blocked';

/** Work that outlives its turn (K-82). */
export interface AgendaItem {
  readonly id: string;
  readonly capability: string;
  /** Validated; for `waiting_input` perhaps as the model gave it. */
  readonly input: unknown;
  readonly evidence: readonly string[];
  readonly status: AgendaStatus;
  readonly code: string | null;
  /** Facts it waits for. */
  readonly missing: readonly FactKey[];
  /** A consent that was given and could not be spent yet: only its own choice keeps it (K-50). */
  readonly consent: Consent | null;
  /** Instant it came up: what has waited longest is asked for first. */
  readonly since: number;
}

/** A person's yes to a frozen input, and to the facts it was shown under. */
export interface Consent {
  readonly interaction: string;
  readonly asker: 'kernel' | 'capability';
  readonly expiresAt: number;
  /** Digest of each required fact when the question was asked. */
  readonly facts: Readonly<Record<FactKey, string>>;
  readonly payload: unknown;
}

interface Asked {
  readonly id: string;
  readonly text: string;
  readonly askedIn: string;
  /** Authority half of the fingerprint it was asked under (K-64). */
  readonly authority: string;
}

export type Interaction =
  | (Asked & {
      readonly kind: 'confirmation';
      readonly owner: string;
      readonly item: string;
      /** Frozen: what a yes runs (K-43). */
      readonly input: unknown;
      readonly asker: 'kernel' | 'capability';
      readonly expiresAt: number;
      readonly facts: Readonly<Record<FactKey, string>>;
      readonly payload: unknown;
    })
  | (Asked & {
      readonly kind: 'choice';
      readonly options: readonly (readonly [id: string, text: string])[];
    })
  | (Asked & {
      readonly kind: 'input';
      readonly owner: string;
      readonly item: string;
      readonly options: readonly (readonly [id: string, text: string])[];
      readonly payload: unknown;
    });

export interface KernelState {
  readonly messages: KeptMessage[];
  readonly facts: Map<FactKey, FactRecord>;
  agenda: AgendaItem[];
  interaction: Interaction | null;
}

/** Names whose keys are looked for: state is read by key. */
export interface KernelNames {
  readonly facts: readonly FactKey[];
  readonly capabilities: readonly string[];
}

const keys = {
  messages: 'kernel.messages',
  interaction: 'kernel.interaction',
  fact: (key: FactKey) => `kernel.fact.${key}`,
  agenda: (capability: string) => `kernel.agenda.${capability}`,
};

/** A deep, frozen copy (K-66). */
export function frozen<T>(value: T): T {
  return freeze(decode(encode(value ?? null))) as T;
}

function freeze(value: unknown): unknown {
  if (typeof value !== 'object' || value === null || ArrayBuffer.isView(value)) return value;
  for (const inner of Object.values(value)) freeze(inner);
  return Object.freeze(value);
}

/** What the thread's state holds, as values that nothing can change from outside. */
export function loadKernel(state: ThreadState, names: KernelNames): KernelState {
  const facts = new Map<FactKey, FactRecord>();
  for (const key of names.facts) {
    const record = state.get(keys.fact(key));
    if (record !== undefined) facts.set(key, frozen(record as FactRecord));
  }
  const agenda = names.capabilities
    .flatMap((id) => frozen((state.get(keys.agenda(id)) ?? []) as AgendaItem[]))
    .toSorted((left, right) => left.since - right.since);
  return {
    messages: [...frozen((state.get(keys.messages) ?? []) as KeptMessage[])],
    facts,
    agenda,
    interaction: frozen((state.get(keys.interaction) ?? null) as Interaction | null),
  };
}

/** Stages the differences between two states; `keep` is how many messages stay. */
export function storeKernel(
  state: ThreadState,
  names: KernelNames,
  before: KernelState,
  after: KernelState,
  keep: number,
): void {
  for (const key of names.facts) {
    const [was, is] = [before.facts.get(key), after.facts.get(key)];
    if (is === undefined && was !== undefined) state.delete(keys.fact(key));
    if (is !== undefined && is !== was) state.set(keys.fact(key), is);
  }
  for (const id of names.capabilities) {
    const of = ({ agenda }: KernelState) => agenda.filter((item) => item.capability === id);
    const [was, is] = [of(before), of(after)];
    if (encode(was) === encode(is)) continue;
    if (is.length === 0) state.delete(keys.agenda(id));
    else state.set(keys.agenda(id), is);
  }
  if (encode(before.interaction) !== encode(after.interaction)) {
    if (after.interaction === null) state.delete(keys.interaction);
    else state.set(keys.interaction, after.interaction);
  }
  storeMessages(state, before, after, keep);
}

/** Bytes of kept texts above which the list is cut, and what a cut leaves. */
const messageBytes = { most: 96 * 1024, left: 48 * 1024 };

/** Adds what is new; every so often the list is cut, which is the one write that replaces it. */
function storeMessages(
  state: ThreadState,
  before: KernelState,
  { messages }: KernelState,
  keep: number,
): void {
  const added = messages.slice(before.messages.length);
  if (added.length === 0) return;
  const long = messages.length > 2 * Math.max(keep, 1);
  if (!long && bytesOf(messages) <= messageBytes.most) {
    for (const message of added) state.append(keys.messages, message);
    return;
  }
  // The last one always stays: its index is what the next one counts from.
  let kept = messages.slice(-Math.max(keep, 1));
  while (kept.length > 1 && bytesOf(kept) > messageBytes.left) kept = kept.slice(1);
  state.set(keys.messages, kept);
}

function bytesOf(messages: readonly KeptMessage[]): number {
  return messages.reduce((sum, { text }) => sum + Buffer.byteLength(text), 0);
}
