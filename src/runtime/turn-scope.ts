// The context handed to agent code: one for the turn, one for each step.
//
// Owns: ordinals, step records, deterministic time, randomness and ids, the state overlay.
//   T7   ordinals count dispatches of one (step, phase); a finished step must have read its whole slice.
//   Decision 12  notes are deduplicated by their place in the step.

import { hmacParts } from '../protocol/digest.ts';
import { TurnstoneError } from '../protocol/errors.ts';
import type { EpochMs, SubjectId, TenantId, ThreadId, TurnId } from '../protocol/ids.ts';
import { parseStepName } from '../protocol/ids.ts';
import type { Phase } from '../protocol/keys.ts';
import { undeclared } from '../protocol/labels.ts';
import { limits } from '../protocol/limits.ts';
import type { Site } from '../protocol/record.ts';
import { exhausted } from './budget-pause.ts';
import { caseEffect } from './cases.ts';
import type { GroupDispatch } from './groups.ts';
import { GroupScope, settling } from './groups.ts';
import { noPayload, payloadOf } from './journal-writer.ts';
import { bindFor, declareIn, releaseOf } from './label-verbs.ts';
import { Labelled } from './labelled.ts';
import * as verbs from './memory-verbs.ts';
import { never } from './never.ts';
import type { Pass } from './pass.ts';
import { besideGroup, refusedEffect } from './scope-refusals.ts';
import { stateOf } from './state-overlay.ts';
import type {
  Act,
  ApprovalAnswer,
  ApprovalRequest,
  CaseChange,
  Effect,
  EffectGroup,
  EventAnswer,
  EventRequest,
  Forget,
  FoundItem,
  Recall,
  RecalledItem,
  Release,
  Remember,
  Removed,
  Search,
  StepOptions,
  Swept,
  ThreadState,
  TurnContext,
  TurnEvent,
} from './turn-context.ts';
import { BudgetExhaustedError, EffectError, TurnSuspendedError } from './turn-context.ts';
import { stageEvent } from './turn-events.ts';
import type { StepState } from './unwind.ts';
import { approvalSpec, eventSpec, timerSpec } from './wait-specs.ts';

export class TurnScope implements TurnContext {
  readonly #pass: Pass;
  readonly #step: string;
  readonly #phase: Phase;
  readonly state: ThreadState;
  #ordinal = 0;
  #group: GroupScope | null = null;
  #draws = 0;

  constructor(pass: Pass, step: string, phase: Phase = 'forward') {
    this.#pass = pass;
    this.#step = step;
    this.#phase = phase;
    this.state = stateOf(pass);
  }

  get tenant(): TenantId {
    return this.#pass.setup.ref.tenant;
  }

  get thread(): ThreadId {
    return this.#pass.setup.ref.thread;
  }

  get turn(): TurnId {
    return this.#pass.setup.ref.turn;
  }

  get subject(): SubjectId | null {
    return this.#pass.setup.subject as SubjectId | null;
  }

  get revision(): number {
    return this.#pass.setup.revision;
  }

  get parallel(): number | null {
    return this.#pass.setup.budget?.parallel ?? null;
  }

  now(): EpochMs {
    return this.#pass.instant;
  }

  random(): number {
    const view = new DataView(this.#draw(8).buffer);
    return Number(view.getBigUint64(0) >> 11n) / 2 ** 53;
  }

  uuid(): string {
    const bytes = this.#draw(16);
    bytes[6] = ((bytes[6] ?? 0) & 0x0f) | 0x40;
    bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80;
    const hex = Buffer.from(bytes).toString('hex');
    return [
      hex.slice(0, 8),
      hex.slice(8, 12),
      hex.slice(12, 16),
      hex.slice(16, 20),
      hex.slice(20),
    ].join('-');
  }

  note(text: string): void {
    const bytes = Buffer.byteLength(text);
    if (bytes > limits.noteBytes) {
      throw new TurnstoneError(
        'invalid_request',
        `note: expected at most ${limits.noteBytes} bytes, got ${bytes}`,
        {
          retry: 'never',
          details: { field: 'note', limit: limits.noteBytes, size: bytes },
        },
      );
    }
    const { history, writer } = this.#pass.setup;
    if (history.takeNote(this.#step) || writer === null) return;
    writer.ride({ kind: 'Note', step: this.#step, author: 'agent' }, payloadOf({ text }));
  }

  emit(event: TurnEvent): string {
    return stageEvent(this.#pass, this.#step, event);
  }

  async effect<T>(effect: Effect<T>): Promise<T> {
    return this.open(await this.labelled(effect));
  }

  async labelled<T>(effect: Effect<T>): Promise<Labelled<T>> {
    if (this.#closed) return never();
    const pass = this.#pass;
    if (pass.setup.agent.deferredOnly(effect.kind)) {
      throw refusedEffect(
        'kind',
        'a kind that may be called inline; this one is only deferred',
        effect.kind,
      );
    }
    const declared = declareIn(pass, effect as Effect<unknown>);
    if (declared.mutates && this.#group?.open === true)
      throw besideGroup(this.#group, declared.kind);
    const site = this.#nextSite();
    const value = (await this.#heard(declared.kind, pass.dispatch(site, declared))) as T;
    return new Labelled(value, pass.labels.of(site, declared.kind));
  }

  /** What a call fails with is seen in the open. */
  async #heard(kind: string, call: Promise<unknown>): Promise<unknown> {
    try {
      return await call;
    } catch (error) {
      this.#pass.labels.see(undeclared(`effect:${kind}`));
      throw error;
    }
  }

  open<T>(value: Labelled<T>): T {
    this.#pass.labels.see(value.label);
    return Labelled.valueOf(value);
  }

  async release<T>(value: T | Labelled<T>, to: Release): Promise<Labelled<T>> {
    const { effect, released } = releaseOf(this.#pass, value, to);
    await this.labelled(effect);
    return released;
  }

  openGroup(name: string, resources: readonly string[]): EffectGroup {
    if (this.#group?.open === true) throw besideGroup(this.#group, `group "${name}"`);
    const place = { step: this.#step, phase: this.#phase };
    const dispatch: GroupDispatch = {
      member: async (effect, as) => {
        if (this.#closed && !as.reversal) return never();
        const declared = { ...declareIn(this.#pass, effect), ...as };
        const site = this.#nextSite();
        const value = await this.#heard(declared.kind, this.#pass.dispatch(site, declared));
        this.#pass.labels.see(this.#pass.labels.of(site, declared.kind));
        return value;
      },
      atomic: (group, effects) => {
        if (this.#closed) return never();
        const members = effects.map(({ kind, args, entries }) => ({
          site: this.#nextSite(),
          declared: { ...declareIn(this.#pass, { kind, args, perform: never }), group },
          entries,
        }));
        return this.#pass.together(members);
      },
    };
    const group = new GroupScope(this.#pass, place, name, resources, dispatch);
    this.#group = group;
    this.#pass.groups.add(group);
    return group;
  }

  /** The group of this scope that may still be open. */
  get group(): GroupScope | null {
    return this.#group;
  }

  async approval(request: ApprovalRequest): Promise<ApprovalAnswer> {
    if (this.#closed) return never();
    const action = bindFor(this.#pass, 'approval', request.action);
    const spec = approvalSpec({ ...request, action });
    const answer = (await this.#pass.wait(this.#nextSite(), spec)) as ApprovalAnswer;
    this.#pass.labels.see(undeclared('approval'));
    return answer;
  }

  async event(request: EventRequest): Promise<EventAnswer> {
    if (this.#closed) return never();
    const answer = (await this.#pass.wait(this.#nextSite(), eventSpec(request))) as EventAnswer;
    this.#pass.labels.see(undeclared(`event:${request.type}`));
    return answer;
  }

  async sleep(ms: number): Promise<void> {
    if (this.#closed) return never();
    await this.#pass.wait(this.#nextSite(), timerSpec(ms));
  }

  async act(act: Act): Promise<string> {
    if (this.#closed) return never();
    const args = bindFor(this.#pass, act.kind, act.args);
    return this.#pass.act(this.#nextSite(), { ...act, args });
  }

  async remember(fact: Remember): Promise<void> {
    if (this.#group?.open === true) throw besideGroup(this.#group, `memory "${fact.id}"`);
    return this.#closed ? never() : verbs.remember(this.#verb, fact);
  }

  async recall(query: Recall): Promise<readonly RecalledItem[]> {
    return this.#closed ? never() : verbs.recall(this.#verb, query);
  }

  async search(query: Search): Promise<readonly FoundItem[]> {
    return this.#closed ? never() : verbs.search(this.#verb, query);
  }

  async forget(what: Forget): Promise<Removed> {
    return verbs.forget(this.#verb, what);
  }

  async sweepMemories(): Promise<Swept> {
    return verbs.sweepLapsed(this.#verb);
  }

  get #verb(): verbs.VerbPlace {
    return {
      pass: this.#pass,
      step: this.#step,
      effect: async (effect) => Labelled.valueOf(await this.labelled(effect)),
      nextSite: () => this.#nextSite(),
    };
  }

  async case(change: CaseChange): Promise<{ readonly version: number; readonly status: string }> {
    const found = await this.effect(caseEffect(this.#pass, change));
    const { version, status } = found as { version: number; status: string };
    return { version, status };
  }

  get #closed(): boolean {
    return this.#phase === 'forward' && this.#pass.mainEnded;
  }

  #nextSite(): Site {
    const ordinal = this.#ordinal;
    this.#ordinal += 1;
    return { step: this.#step, phase: this.#phase, ordinal };
  }

  async step<T>(
    name: string,
    options: StepOptions,
    body: (step: TurnContext) => Promise<T>,
  ): Promise<T> {
    const pass = this.#pass;
    if (this.#phase !== 'forward') {
      throw new TurnstoneError('invalid_request', 'an undo has no steps of its own', {
        retry: 'never',
      });
    }
    const step = parseStepName('step', name);
    if (pass.stepNames.has(step)) {
      throw new TurnstoneError(
        'invalid_request',
        `step "${step}": expected a name not used before in this turn`,
        {
          retry: 'never',
          details: { field: 'step', got: step },
        },
      );
    }
    if (pass.stepNames.size >= limits.stepsPerTurnMax) {
      throw new TurnstoneError(
        'invalid_request',
        `a turn has at most ${limits.stepsPerTurnMax} steps`,
        {
          retry: 'never',
          details: { limit: limits.stepsPerTurnMax },
        },
      );
    }
    const { history, writer } = pass.setup;
    const recorded = history.step(step);
    if (!recorded.started && pass.historyOnly) return never();
    this.#admitStep(step);
    pass.stepNames.add(step);
    const state: StepState = { compensation: options.compensation ?? 'undeclared', output: null };
    if (options.undo !== undefined) state.undo = options.undo;
    pass.steps.set(step, state);
    if (!recorded.started) writer?.ride({ kind: 'StepStarted', step }, noPayload);
    pass.stepOpened();
    try {
      pass.boundary();
      await undefined;
      const scope = new TurnScope(pass, step);
      const value = await settling(
        () => scope.group,
        () => body(scope),
      );
      this.#allRead(step);
      state.output = value;
      if (recorded.outcome !== 'ok') {
        writer?.ride({ kind: 'StepFinished', step, outcome: 'ok' }, noPayload);
      }
      return value;
    } catch (error) {
      const undecided = error instanceof EffectError && error.undecided;
      if (undecided) pass.undecided ??= error;
      const stopped =
        undecided || error instanceof TurnSuspendedError || error instanceof BudgetExhaustedError;
      if (!stopped && recorded.outcome === null) {
        writer?.ride({ kind: 'StepFinished', step, outcome: 'failed' }, noPayload);
      }
      throw error;
    } finally {
      pass.stepClosed();
    }
  }

  /** A step's own ceilings; its refusal stands at ordinal -1 and is asked again at the frontier (BU-8). */
  #admitStep(step: string): void {
    const pass = this.#pass;
    const { history, writer, budget } = pass.setup;
    const site = { step, phase: 'forward' as const, ordinal: -1 };
    const recorded = history.take(site)?.records.at(-1)?.body;
    const refused = recorded?.kind === 'BudgetRefused' ? recorded : null;
    if (history.step(step).started && refused === null) return;
    if (writer === null) {
      if (refused !== null) throw exhausted(refused.limit, step);
      return;
    }
    const refusal = pass.meter.step(budget, pass.stepNames.size, pass.elapsedMs());
    if (refusal === null) {
      if (refused !== null) {
        writer.ride({ kind: 'BudgetReadmitted', site, key: '', limit: refused.limit }, noPayload);
      }
      return;
    }
    if (refused === null) {
      const { limit, ceiling, consumed } = refusal;
      writer.ride(
        { kind: 'BudgetRefused', site, key: '', limit },
        payloadOf({ ceiling, consumed }),
      );
    }
    throw exhausted(refusal.limit, step);
  }

  #allRead(step: string): void {
    const left = this.#pass.setup.history.unreadOf(step);
    if (left === undefined || left.body.kind !== 'EffectStarted') return;
    this.#pass.diverged({
      site: left.body.site,
      recorded: { kind: left.body.effect, key: left.body.key, attempt: left.body.attempt },
      asked: null,
      moved: 'missing',
      seq: left.body.seq,
    });
  }

  #draw(count: number): Uint8Array<ArrayBuffer> {
    this.#draws += 1;
    const mac = hmacParts(this.#pass.setup.seed, 'turnstone.draw.1', [this.#step, this.#draws]);
    return Uint8Array.from(mac.subarray(0, count));
  }
}
