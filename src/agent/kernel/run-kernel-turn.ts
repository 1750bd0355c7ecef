// One turn of a kernel agent: load, interpret, plan, execute, reduce, respond. The runtime commits it [T1].
//
//   K-17  whatever throws on the way leaves the checkpoint as it was; only effects that landed stay, as receipts.
//   K-42  a confirmation is committed by the turn that proposes; the answer is another turn (decision 25).
//   K-49  an unrelated message leaves the pending question exactly as it is.
import { encode } from '../../protocol/canonical.ts';
import type { TurnContext } from '../../runtime/turn-context.ts';
import { activeOf, cancel, carryOver, confirm, select } from './answers.ts';
import type { CompiledAgent } from './compiled-agent.ts';
import { answerSupported, interpret } from './interpret.ts';
import type { Delivery } from './kernel-input.ts';
import type { AgendaItem, Interaction } from './kernel-state.ts';
import { loadKernel, storeKernel } from './kernel-state.ts';
import type { Interpretation } from './model-words.ts';
import type { Work } from './plan.ts';
import { validInput } from './plan.ts';
import type { Reply } from './respond.ts';
import { respond } from './respond.ts';
import { Rounds } from './rounds.ts';
import type { StepView } from './turn-book.ts';
import { TurnBook } from './turn-book.ts';

/** What a turn answers. */
export interface KernelResult {
  readonly reply: string;
  /** Whose words the reply is: a model's, every part citing results, or the results' own. */
  readonly wording: Reply['wording'];
  readonly steps: readonly StepView[];
  readonly interaction: InteractionView | null;
}

/** The one question to the person: answer it with its id. */
export interface InteractionView {
  readonly id: string;
  readonly kind: Interaction['kind'];
  readonly text: string;
  readonly owner?: string;
  readonly input?: unknown;
  /** ISO 8601. */
  readonly expiresAt?: string;
  readonly options?: readonly (readonly [id: string, text: string])[];
}

/** Runs the turn; throws AgentError with a code of page 02 when it may not commit. */
export async function runKernelTurn(
  context: TurnContext,
  agent: CompiledAgent,
  sent: Delivery,
): Promise<KernelResult> {
  const loaded = loadKernel(context.state, agent.names);
  const book = new TurnBook(loaded, context.now());
  const dead = carryOver(book, agent.authority(), agent.carryover);
  const before = book.state.interaction;
  const work = new Map<string, Work>();
  const add = (one: Work | null): void => {
    if (one !== null) work.set(one.item.id, one);
  };
  if (sent.message !== undefined) book.say('user', context.turn, sent.message);
  if (!namesDead(sent, dead)) {
    if (sent.answering !== undefined) activeOf(book, sent.answering);
    if (sent.confirm !== undefined) {
      add(confirm(book, sent.confirm.interactionId, sent.confirm.value));
    }
    if (sent.select !== undefined) {
      add(select(book, sent.select.interactionId, sent.select.option, 'click'));
    }
    if (sent.cancel !== undefined) cancel(book, sent.cancel.interactionId);
  }
  if (sent.message !== undefined) {
    const read = await interpret(context, agent, book.state);
    const bound = before !== null && sent.answering === before.id && clicksNothing(sent);
    add(await wordsAnswer(context, agent, book, before, sent.message, read, bound));
    // A question that lapsed is asked afresh by whoever asks again.
    const lapsed = before?.kind === 'confirmation' && book.lapsed(before.expiresAt);
    const standing = lapsed ? null : before;
    for (const one of requested(context, agent, book, standing, read, [...work.values()])) add(one);
  }
  tellAnswers(context, book, [...work.values()]);
  await new Rounds(context, agent, book).run([...work.values()]);
  book.settleInteraction();
  if (book.state.interaction !== null && book.state.interaction.id !== before?.id) {
    context.emit({ type: 'interaction.asked', category: 'audit' });
  }
  const reply = await respond(context, agent, book);
  sayReply(context, book, reply);
  storeKernel(context.state, agent.names, loaded, book.state, agent.limits.messages);
  return {
    reply: reply.text,
    wording: reply.wording,
    steps: book.steps,
    interaction: viewOf(book.state.interaction),
  };
}

/** What the person's answer came to, before anything runs on it. */
function tellAnswers(context: TurnContext, { steps }: TurnBook, work: readonly Work[]): void {
  const told: Readonly<Record<string, string>> = {
    confirmation_declined: 'confirmation.declined',
    confirmation_expired: 'confirmation.expired',
    agenda_item_cancelled: 'agenda.item.cancelled',
  };
  for (const { code } of steps) {
    const type = told[code ?? ''];
    if (type !== undefined) context.emit({ type, category: 'audit' });
  }
  for (const { consent } of work) {
    if (consent !== null) context.emit({ type: 'confirmation.accepted', category: 'audit' });
  }
}

function clicksNothing({ confirm: yes, select: click, cancel: up }: Delivery): boolean {
  return yes === undefined && click === undefined && up === undefined;
}

/** An answer to a question that this build had to take back is no mistake of the caller's. */
function namesDead(sent: Delivery, dead: string | null): boolean {
  const named =
    sent.answering ??
    sent.confirm?.interactionId ??
    sent.select?.interactionId ??
    sent.cancel?.interactionId;
  return dead !== null && named === dead;
}

/** Words for an answer: bound to the question the person saw, and reviewed on their own (K-45, K-56). */
async function wordsAnswer(
  context: TurnContext,
  agent: CompiledAgent,
  book: TurnBook,
  asked: Interaction | null,
  message: string,
  read: Interpretation,
  bound: boolean,
): Promise<Work | null> {
  const { answer, option, cancels } = read;
  const claims = answer != null || option != null || cancels != null;
  if (!claims || asked === null || book.state.interaction?.id !== asked.id) return null;
  if (!bound) {
    const text = 'say which question this answers';
    book.steps.push({
      capability: 'answer',
      status: 'rejected',
      code: 'answer_unbound',
      message: text,
    });
    return null;
  }
  if (cancels != null) {
    const meaning = 'a wish to give up what it is about, in answer' as const;
    const claim = { meaning, evidence: cancels.evidence };
    if (await answerSupported(context, agent, asked, message, claim)) cancel(book, asked.id);
    else unsupported(book);
    return null;
  }
  if (answer != null && asked.kind === 'confirmation') {
    const meaning = answer.accepts ? ('a yes' as const) : ('a no' as const);
    const claim = { meaning, evidence: answer.evidence };
    if (await answerSupported(context, agent, asked, message, claim)) {
      return confirm(book, asked.id, answer.accepts);
    }
    unsupported(book);
    return null;
  }
  const known = asked.kind === 'confirmation' ? [] : asked.options.map(([id]) => id);
  if (option == null || !known.includes(option)) return null;
  return select(book, asked.id, option, 'words');
}

function unsupported(book: TurnBook): void {
  const message = 'the words were not clearly an answer';
  book.steps.push({
    capability: 'answer',
    status: 'rejected',
    code: 'answer_unsupported',
    message,
  });
}

/** New work the words ask for, restatements folded into what they restate (K-47, K-51). */
function requested(
  context: TurnContext,
  agent: CompiledAgent,
  book: TurnBook,
  asked: Interaction | null,
  read: Interpretation,
  resumed: readonly Work[],
): readonly Work[] {
  for (const wish of read.unsupported) {
    const message = `nothing here does that: ${wish}`;
    book.steps.push({ capability: 'none', status: 'rejected', code: 'unsupported', message });
  }
  const added: Work[] = [];
  for (const { capability, input, evidence, ambiguous } of read.intentions) {
    if (asked !== null && restates(agent, asked, read, { capability, input, evidence })) continue;
    replaceOlder(book, capability, [...resumed, ...added]);
    const item: AgendaItem = {
      id: context.uuid(),
      capability,
      input,
      evidence,
      status: 'ready',
      code: null,
      missing: [],
      consent: null,
      since: context.now(),
    };
    const wondering = ambiguous === undefined || ambiguous === '' ? null : ambiguous;
    added.push({ item, ambiguous: wondering, consent: null, resumed: null, automatic: false });
  }
  return added;
}

/** The same request as the pending question's: equal input, or no words beside those of the answer. */
function restates(
  agent: CompiledAgent,
  asked: Interaction,
  { answer }: Interpretation,
  intention: { capability: string; input: unknown; evidence: readonly string[] },
): boolean {
  if (asked.kind !== 'confirmation' || asked.owner !== intention.capability) return false;
  const capability = agent.capabilities.byId.get(intention.capability);
  const checked = capability === undefined ? null : validInput(capability, intention.input);
  if (checked !== null && 'input' in checked && encode(checked.input) === encode(asked.input)) {
    return true;
  }
  const words = answer?.evidence ?? [];
  return intention.evidence.length > 0 && intention.evidence.every((text) => words.includes(text));
}

/** A new request takes the place of what was on the agenda for it; work of this turn stays beside it (K-51). */
function replaceOlder(book: TurnBook, capability: string, own: readonly Work[]): void {
  const kept = new Set(own.map(({ item }) => item.id));
  for (const item of book.state.agenda) {
    if (item.capability === capability && !kept.has(item.id)) book.remove(item.id);
  }
}

function sayReply(context: TurnContext, book: TurnBook, reply: Reply): void {
  if (reply.open !== '') book.say('assistant', context.turn, reply.open);
  for (const text of reply.sealed) book.say('assistant', context.turn, text, true);
}

function viewOf(asked: Interaction | null): InteractionView | null {
  if (asked === null) return null;
  const { id, kind, text } = asked;
  if (asked.kind === 'confirmation') {
    const expiresAt = new Date(asked.expiresAt).toISOString();
    return { id, kind, text, owner: asked.owner, input: asked.input, expiresAt };
  }
  const owner = asked.kind === 'input' ? { owner: asked.owner } : {};
  return { id, kind, text, options: asked.options, ...owner };
}
