// Planning and running in rounds until nothing moves by itself: the plan, the runs, what they change, what follows.
//
//   K-19  every run counts; runs nobody asked for have a ceiling of their own.
//   K-40  reads of a round run side by side and are all awaited; writes run one at a time, in dependency order.
//   K-50, K-81  writes without an order become one choice, and none of them runs.
//   K-82  a consumer waits for its facts, and is blocked when their provider failed.
import { AgentError } from '../../protocol/errors.ts';
import type { TurnContext } from '../../runtime/turn-context.ts';
import type { CapabilityResult, FactKey } from './capability.ts';
import type { CompiledAgent } from './compiled-agent.ts';
import type { AgendaItem, Interaction } from './kernel-state.ts';
import type { Decision, Work } from './plan.ts';
import { conflicting, decide, factDigests, priorities } from './plan.ts';
import type { Ran } from './run-capability.ts';
import { runCapability } from './run-capability.ts';
import type { TurnBook } from './turn-book.ts';

type Run = Extract<Decision, { kind: 'run' }>;

/** One turn's rounds over its book. */
export class Rounds {
  readonly #context: TurnContext;
  readonly #agent: CompiledAgent;
  readonly #book: TurnBook;
  readonly #spawned = new Set<string>();
  readonly #next: Work[] = [];
  #runs = 0;
  #automaticRuns = 0;

  constructor(context: TurnContext, agent: CompiledAgent, book: TurnBook) {
    this.#context = context;
    this.#agent = agent;
    this.#book = book;
  }

  /** Runs until the agenda rests. Throws `step_budget_exceeded` or `automatic_step_budget_exceeded`. */
  async run(first: readonly Work[]): Promise<void> {
    let work = first.length > 0 ? first : this.#following();
    while (work.length > 0) {
      for (const { item } of work) this.#book.put({ ...item, status: 'ready', code: null });
      const decisions: Decision[] = [];
      for (const one of work) {
        decisions.push(await decide(this.#context, this.#agent, this.#book.state, one));
      }
      await this.#carryOut(decisions);
      work = this.#following();
    }
  }

  async #carryOut(decisions: readonly Decision[]): Promise<void> {
    const clash = conflicting(this.#agent, decisions);
    if (clash.length > 0) this.#choose(clash);
    const runs: Run[] = [];
    for (const decision of decisions) {
      if (clash.includes(decision)) continue;
      if (decision.kind === 'run') runs.push(decision);
      else this.#postpone(decision);
    }
    const isWrite = ({ capability }: Run) => capability.effect === 'write';
    const reads = runs.filter((run) => !isWrite(run));
    const settled = await Promise.allSettled(reads.map((run) => this.#start(run)));
    for (const [index, outcome] of settled.entries()) {
      if (outcome.status === 'rejected') throw outcome.reason;
      this.#reduce(reads[index] as Run, outcome.value);
    }
    const { ordered } = this.#agent.capabilities;
    const writes = runs
      .filter(isWrite)
      .toSorted((left, right) => (ordered(left.capability.id, right.capability.id) ? -1 : 1));
    for (const run of writes) this.#reduce(run, await this.#start(run));
  }

  #start(run: Run): Promise<Ran> {
    const { steps, automaticSteps } = this.#agent.limits;
    this.#runs += 1;
    if (run.work.automatic) this.#automaticRuns += 1;
    if (this.#automaticRuns > automaticSteps) {
      throw overBudget('automatic_step_budget_exceeded', automaticSteps);
    }
    if (this.#runs > steps) throw overBudget('step_budget_exceeded', steps);
    const step = `${run.capability.id}#${this.#runs}`;
    return runCapability(this.#context, this.#agent, this.#book.state, { ...run, step });
  }

  /** A decision that runs nothing now. */
  #postpone(decision: Exclude<Decision, { kind: 'run' }>): void {
    const book = this.#book;
    const { work } = decision;
    const item = { ...work.item, consent: null };
    const { capability } = item;
    switch (decision.kind) {
      case 'reject':
        book.remove(item.id);
        book.steps.push({
          capability,
          status: 'rejected',
          code: decision.code,
          message: decision.message,
        });
        this.#blockConsumers(capability);
        return;
      case 'clarify': {
        book.put({ ...item, status: 'waiting_input', code: decision.code });
        const priority =
          decision.code === 'ambiguous'
            ? priorities.ambiguous
            : decision.code === 'invalid_input'
              ? priorities.input
              : priorities.policy;
        this.#asked(item, decision.code, decision.question);
        book.ask(priority, {
          ...this.#question(decision.question),
          kind: 'input',
          owner: capability,
          item: item.id,
          options: [],
          payload: null,
        });
        return;
      }
      case 'await_facts': {
        const { missing, code } = decision;
        book.put({ ...item, status: 'waiting_facts', code, missing });
        const message = `it needs ${missing.join(', ')}`;
        book.steps.push({ capability, status: 'waiting', code, message });
        return;
      }
      case 'confirm':
        this.#confirm({ ...item, input: decision.input }, decision);
        return;
    }
  }

  #confirm(
    item: AgendaItem,
    { code, text }: { readonly code: string; readonly text: string },
  ): void {
    const compiled = this.#agent.capabilities.byId.get(item.capability);
    if (compiled === undefined) throw new Error(`no capability ${item.capability}`);
    this.#book.put({ ...item, status: 'waiting_confirmation', code });
    this.#asked(item, code, text);
    this.#book.ask(priorities.confirmation, {
      ...this.#question(text),
      kind: 'confirmation',
      owner: item.capability,
      item: item.id,
      input: item.input,
      asker: 'kernel',
      expiresAt: this.#context.now() + this.#agent.limits.confirmationMs,
      facts: factDigests(compiled, this.#book.state),
      payload: null,
    });
  }

  /** None of them runs; a yes that was given is kept for the case that its own work is picked (K-50). */
  #choose(clash: readonly Decision[]): void {
    const options = clash.map(({ work }) => {
      const { item, consent } = work;
      this.#book.put({ ...item, status: 'waiting_input', code: 'write_conflict', consent });
      return [item.id, `${item.capability} ${JSON.stringify(item.input)}`] as const;
    });
    const text = 'These change things and have no order. Which one first?';
    for (const { work } of clash) this.#asked(work.item, 'write_conflict', text);
    const choice = { ...this.#question(text), kind: 'choice' as const, options };
    if (this.#book.pending === null) this.#book.ask(priorities.conflict, choice);
    else this.#book.dissolveUnasked(choice);
  }

  #reduce(run: Run, { result, facts }: Ran): void {
    const book = this.#book;
    const { capability, work, input } = run;
    const item: AgendaItem = { ...work.item, input };
    const view = { capability: capability.id, code: null };
    switch (result.kind) {
      case 'completed': {
        book.publish(capability, facts);
        book.remove(item.id);
        const sealed = result.protectedMessage;
        const message = sealed ?? result.message ?? `${capability.id}: done`;
        const seal = sealed === undefined ? {} : { protected: true };
        book.steps.push({ ...view, status: 'completed', message, output: result.output, ...seal });
        return;
      }
      case 'failed': {
        const { code, message } = result;
        // A failed write is never tried again by itself: only a new request is (K-88).
        if (capability.effect === 'write')
          book.put({ ...item, status: 'blocked', code, consent: null });
        else book.remove(item.id);
        book.steps.push({ ...view, status: 'failed', code, message });
        this.#blockConsumers(capability.id);
        return;
      }
      default:
        return this.#goesOn(run, item, result);
    }
  }

  /** A run that ended in a question or in need of a fact. */
  #goesOn(
    { capability, work }: Run,
    item: AgendaItem,
    result: Exclude<CapabilityResult, { kind: 'completed' | 'failed' }>,
  ): void {
    const book = this.#book;
    switch (result.kind) {
      case 'needs_input': {
        book.invalidate(result.invalidates ?? []);
        const { text, options = [], payload = null } = result.question;
        // The yes to this input stands while its own question is answered; its deadline stands too.
        book.put({ ...item, status: 'waiting_input', code: 'needs_input', consent: work.consent });
        this.#asked(item, 'needs_input', text);
        const asked = { ...this.#question(text), kind: 'input' as const, options, payload };
        book.ask(priorities.capability, { ...asked, owner: capability.id, item: item.id });
        return;
      }
      case 'needs_confirmation': {
        const { summary, payload = null } = result;
        const expiresInMs = result.expiresInMs ?? this.#agent.limits.confirmationMs;
        book.put({
          ...item,
          status: 'waiting_confirmation',
          code: 'confirmation_required',
          consent: null,
        });
        this.#asked(item, 'confirmation_required', summary);
        book.ask(priorities.confirmation, {
          ...this.#question(summary),
          kind: 'confirmation',
          owner: capability.id,
          item: item.id,
          input: item.input,
          asker: 'capability',
          expiresAt: this.#context.now() + expiresInMs,
          facts: factDigests(capability, book.state),
          payload,
        });
        return;
      }
      case 'needs_dependency': {
        const { fact } = result;
        book.put({
          ...item,
          status: 'waiting_facts',
          code: 'dependency_pending',
          missing: [fact],
          consent: null,
        });
        book.steps.push({
          capability: capability.id,
          status: 'waiting',
          code: 'dependency_pending',
          message: `it needs ${fact}`,
        });
        this.#next.push(this.#unasked(result.capability, result.input));
        return;
      }
    }
  }

  /** What follows by itself: asked-for providers, consumers whose facts came, then one queued item. */
  #following(): readonly Work[] {
    const asked = this.#next.splice(0);
    if (asked.length > 0) return asked;
    const { state } = this.#book;
    const waiting = state.agenda.filter(({ status }) => status === 'waiting_facts');
    const served = waiting.filter(({ missing }) => missing.every((fact) => state.facts.has(fact)));
    if (served.length > 0) return served.map((item) => resume(item));
    const providers = waiting.flatMap((item) => this.#providersFor(item));
    if (providers.length > 0) return providers;
    if (!this.#book.slotFree) return [];
    const queued = state.agenda.find(
      ({ status, id }) => status === 'waiting_confirmation' && !this.#isAsked(id),
    );
    return queued === undefined ? [] : [resume(queued)];
  }

  #isAsked(id: string): boolean {
    const { interaction } = this.#book.state;
    return interaction?.kind === 'confirmation' && interaction.item === id;
  }

  /** Providers that may run unasked for what an item misses; each once in a turn. */
  #providersFor(item: AgendaItem): readonly Work[] {
    return item.missing.flatMap((fact) => {
      const provider = this.#agent.capabilities.providers.get(fact);
      const automatic = provider?.definition.automatic;
      if (provider === undefined || automatic === undefined || this.#busy(provider.id)) return [];
      if (this.#book.state.facts.has(fact)) return [];
      const once = `${item.id}\n${provider.id}`;
      if (this.#spawned.has(once)) return [];
      this.#spawned.add(once);
      const input = automatic({ capability: item.capability, input: item.input });
      return [this.#unasked(provider.id, input)];
    });
  }

  #busy(capability: string): boolean {
    return this.#book.state.agenda.some(
      (item) => item.capability === capability && item.status !== 'blocked',
    );
  }

  #blockConsumers(provider: string): void {
    for (const item of this.#book.state.agenda) {
      if (item.status !== 'waiting_facts') continue;
      const lacks = item.missing.some((fact: FactKey) => {
        const { providers } = this.#agent.capabilities;
        return providers.get(fact)?.id === provider && !this.#book.state.facts.has(fact);
      });
      if (!lacks) continue;
      const code = 'dependency_not_completed';
      this.#book.put({ ...item, status: 'blocked', code });
      const message = `${provider} did not come to what it needs`;
      this.#book.steps.push({ capability: item.capability, status: 'failed', code, message });
    }
  }

  #unasked(capability: string, input: unknown): Work {
    const item: AgendaItem = {
      id: this.#context.uuid(),
      capability,
      input,
      evidence: [],
      status: 'ready',
      code: null,
      missing: [],
      consent: null,
      since: this.#context.now(),
    };
    return resume(item);
  }

  #asked(item: AgendaItem, code: string, message: string): void {
    this.#book.steps.push({ capability: item.capability, status: 'asked', code, message });
  }

  #question(text: string): Pick<Interaction, 'id' | 'text' | 'askedIn' | 'authority'> {
    const { context, agent } = { context: this.#context, agent: this.#agent };
    return { id: context.uuid(), text, askedIn: context.turn, authority: agent.authority() };
  }
}

function resume(item: AgendaItem): Work {
  return { item, ambiguous: null, consent: null, resumed: null, automatic: true };
}

function overBudget(code: string, limit: number): AgentError {
  return new AgentError(`the turn: expected at most ${limit} runs of capabilities`, { code });
}
