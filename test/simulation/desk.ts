// A desk for tests of the kernel: what it can do, what it saw, and a model that reads by a word list.
import * as v from 'valibot';
import type { Capability, Policy } from '../../src/agent/kernel/capability.ts';
import type { KernelAgentOptions } from '../../src/agent/kernel/define-agent.ts';
import { defineAgent } from '../../src/agent/kernel/define-agent.ts';
import type { KernelResult } from '../../src/agent/kernel/run-kernel-turn.ts';
import type { ModelRequest } from '../../src/ports/model.ts';
import { ScriptedModel } from '../../src/testing/scripted-model.ts';
import type { OpenStore } from '../stores.ts';
import { Scene } from './scene.ts';

export const anyOutput = v.unknown();
export const noInput = { input: v.object({}), inputJson: { type: 'object' } } as const;
export const amountInput = {
  input: v.object({ amount: v.number() }),
  inputJson: { type: 'object', properties: { amount: { type: 'number' } } },
} as const;
export const orderInput = {
  input: v.object({ order: v.number() }),
  inputJson: { type: 'object', properties: { order: { type: 'number' } } },
} as const;

/** What the outside saw, by capability. */
export class DeskWorld {
  readonly calls: [capability: string, input: unknown][] = [];
  runs: string[] = [];
  /** Set: the provider does what it is told and then its answer is lost. */
  broken = false;

  count(capability: string): number {
    return this.calls.filter(([name]) => name === capability).length;
  }

  /** A write that the kernel confirms. */
  write(id: string, input: Pick<Capability, 'input' | 'inputJson'>): Capability {
    return {
      id,
      description: `Do ${id}.`,
      effect: 'write',
      confirmation: 'required',
      ...input,
      output: anyOutput,
      run: async (context) => {
        this.runs.push(id);
        const output = await context.write(JSON.stringify(context.input), {
          args: context.input,
          retry: { maxAttempts: 1 },
          perform: async () => this.land(id, context.input),
        });
        return { kind: 'completed', output, message: `${id} is done` };
      },
    };
  }

  async land(id: string, input: unknown): Promise<unknown> {
    this.calls.push([id, input]);
    if (this.broken) throw new Error('the answer was lost');
    return { id: this.calls.length };
  }
}

/** Tells the hours: needs nothing, changes nothing, knows a fact. */
export const hours: Capability = {
  id: 'hours',
  description: 'Tell the opening hours.',
  effect: 'none',
  ...noInput,
  output: anyOutput,
  provides: { 'hours@1': v.string() },
  run: (context) => ({
    kind: 'completed',
    output: 'nine to five',
    facts: [{ fact: 'hours@1', value: 'nine to five', evidence: [context.cite('the door')] }],
    message: 'We are open nine to five.',
  }),
};

/** What a message reads as: an interpretation without the parts it does not need. */
export type Reading = Readonly<Record<string, unknown>>;

/** Reads messages by a list; answers every review with what is in `review`. */
export function reader(
  readings: Readonly<Record<string, Reading | string>>,
  more: Readonly<Record<string, (request: ModelRequest, asked: number) => string>> = {},
): ScriptedModel {
  return new ScriptedModel((request, asked) => {
    const phase = String(request.schema?.title);
    const own = more[phase];
    if (own !== undefined) return own(request, asked);
    if (phase === 'review') return JSON.stringify({ supported: true });
    const said = request.messages.at(-1)?.text.replace(/^\[\d+\] /, '') ?? '';
    const reading = readings[said];
    if (reading === undefined) throw new Error(`the model has no reading of "${said}"`);
    return typeof reading === 'string' ? reading : JSON.stringify({ intentions: [], ...reading });
  });
}

export const wants = (capability: string, input: unknown = {}, ...evidence: string[]) => ({
  capability,
  input,
  evidence,
});

export function desk(
  model: ScriptedModel,
  capabilities: readonly Capability[],
  more: Partial<KernelAgentOptions> & { readonly policies?: readonly Policy[] } = {},
) {
  return defineAgent({ name: 'desk', model, capabilities, ...more });
}

/** A scene whose turns are numbered, with their results. */
export class Talking extends Scene {
  #turns = 0;

  static async open(open: OpenStore, agent: ReturnType<typeof desk>): Promise<Talking> {
    return new Talking(await open(), agent);
  }

  async #send(input: unknown) {
    this.#turns += 1;
    return this.conclude(`t${this.#turns}`, { input });
  }

  /** A turn that succeeds. */
  async tell(input: unknown): Promise<KernelResult> {
    const turn = await this.#send(input);
    if (turn.status !== 'succeeded') throw new Error(`the turn ended ${JSON.stringify(turn)}`);
    return turn.result as KernelResult;
  }

  /** A turn that fails: its code. */
  async fails(input: unknown): Promise<string> {
    const turn = await this.#send(input);
    if (turn.status !== 'failed') throw new Error(`the turn ended ${JSON.stringify(turn)}`);
    return turn.error?.code ?? '';
  }

  /** A turn that ends in doubt. */
  async doubts(input: unknown): Promise<void> {
    const turn = await this.#send(input);
    if (turn.status !== 'quarantined') throw new Error(`the turn ended ${JSON.stringify(turn)}`);
  }

  get lastTurn(): string {
    return `t${this.#turns}`;
  }

  say(message: string, answering?: string): Promise<KernelResult> {
    return this.tell(answering === undefined ? { message } : { message, answering });
  }

  yes(interactionId: string): Promise<KernelResult> {
    return this.tell({ confirm: { interactionId, value: true } });
  }
}

/** The question a turn ended with. */
export function asked(result: KernelResult): NonNullable<KernelResult['interaction']> {
  if (result.interaction === null) throw new Error(`nothing is asked: ${result.reply}`);
  return result.interaction;
}
