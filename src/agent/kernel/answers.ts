// What a person says about the pending question: a click, or words that name the question they answer.
//
//   K-44  only a strict `true` to the active confirmation is a yes; only `false` is a no.
//   K-45  another id, an unknown option or an empty one is a typed error, and nothing changes.
//   K-48  a no is taken before anything else is looked at.
//   K-52  a deadline is judged when the answer comes, timer or none.
import { AgentError } from '../../protocol/errors.ts';
import type { Resumed } from './capability.ts';
import type { Carryover } from './compiled-agent.ts';
import type { AgendaItem, Consent, Interaction } from './kernel-state.ts';
import type { Work } from './plan.ts';
import type { TurnBook } from './turn-book.ts';

type Confirmation = Extract<Interaction, { kind: 'confirmation' }>;

/** The active interaction, when `id` names it; throws `interaction_selection_mismatch`. */
export function activeOf(book: TurnBook, id: string): Interaction {
  const { interaction } = book.state;
  if (interaction === null || interaction.id !== id) {
    const got = interaction === null ? 'none is pending' : `"${interaction.id}" is pending`;
    throw mistake('interaction_selection_mismatch', `interaction "${id}": ${got}`);
  }
  return interaction;
}

/** Takes a yes or no; answers the work a yes sets free. */
export function confirm(book: TurnBook, id: string, value: unknown): Work | null {
  const asked = activeOf(book, id);
  if (asked.kind !== 'confirmation') {
    throw mistake('interaction_selection_mismatch', `interaction "${id}": it is a ${asked.kind}`);
  }
  if (typeof value !== 'boolean') {
    const got = JSON.stringify(value) ?? typeof value;
    throw mistake('answer_not_boolean', `confirm.value: expected true or false, got ${got}`);
  }
  if (book.lapsed(asked.expiresAt)) {
    book.remove(asked.item);
    const message = 'the question had lapsed; ask for it again';
    book.steps.push(rejected(asked.owner, 'confirmation_expired', message));
    return null;
  }
  const item = itemOf(book, asked);
  book.state.interaction = null;
  if (!value) {
    book.remove(asked.item);
    book.steps.push(rejected(asked.owner, 'confirmation_declined', 'it was declined'));
    return null;
  }
  const { expiresAt, facts, payload, asker } = asked;
  return spending(item, { interaction: asked.id, asker, expiresAt, facts, payload });
}

/** Takes a click, or words for one; a yes that was kept for this choice is spent only by a click. */
export function select(
  book: TurnBook,
  id: string,
  option: string,
  by: 'click' | 'words',
): Work | null {
  const asked = activeOf(book, id);
  if (option.trim() === '') {
    throw mistake('interaction_selection_empty', 'select.option: expected an option, got nothing');
  }
  const options = asked.kind === 'confirmation' ? [] : asked.options;
  if (!options.some(([known]) => known === option)) {
    throw mistake('interaction_option_not_found', `interaction "${id}": no option "${option}"`);
  }
  if (asked.kind === 'confirmation') return null;
  if (asked.kind === 'input') {
    const item = itemOf(book, asked);
    book.state.interaction = null;
    const resumed: Resumed = { accepted: false, option, payload: asked.payload };
    return { ...free(item), consent: standing(book, item), resumed };
  }
  const item = book.item(option);
  book.dissolve(asked, option);
  if (item === null) return null;
  const consent = by === 'click' ? standing(book, item) : null;
  return consent === null ? free(item) : spending(item, consent);
}

/** Gives the pending work up, which is not a no (K-58). */
export function cancel(book: TurnBook, id: string): void {
  const asked = activeOf(book, id);
  const items = asked.kind === 'choice' ? asked.options.map(([item]) => item) : [asked.item];
  for (const item of items) {
    const capability = book.item(item)?.capability;
    book.remove(item);
    if (capability === undefined) continue;
    const message = 'it was given up';
    book.steps.push({ capability, status: 'cancelled', code: 'agenda_item_cancelled', message });
  }
  // Whatever was dissolved on the way was given up as well.
  for (const item of items) book.remove(item);
  book.state.interaction = null;
}

/**
 * A question of an earlier authority, by the declared map: kept, asked again under a fresh id, or dropped (K-64).
 * Answers the id that is dead now.
 */
export function carryOver(
  book: TurnBook,
  authority: string,
  map: ReadonlyMap<string, Carryover>,
): string | null {
  const asked = book.state.interaction;
  if (asked === null || asked.authority === authority) return null;
  const carry = map.get(asked.authority) ?? 'ask_again';
  if (carry === 'accept') return null;
  if (asked.kind === 'choice') book.dissolve(asked, null);
  else {
    const item = itemOf(book, asked);
    book.remove(asked.item);
    if (carry === 'ask_again') {
      book.put({ ...item, status: 'waiting_confirmation', code: 'queued', consent: null });
    }
  }
  const message = 'what was asked has changed since';
  const owner = asked.kind === 'choice' ? 'choice' : asked.owner;
  book.steps.push(rejected(owner, 'authority_changed', message));
  return asked.id;
}

function itemOf(book: TurnBook, asked: Exclude<Interaction, { kind: 'choice' }>): AgendaItem {
  const item = book.item(asked.item);
  if (item === null) {
    throw mistake('invalid_agenda', `interaction "${asked.id}": its item is not on the agenda`);
  }
  return asked.kind === 'confirmation' ? { ...item, input: (asked as Confirmation).input } : item;
}

/** A yes that was kept and still counts. */
function standing(book: TurnBook, { consent }: AgendaItem): Consent | null {
  return consent === null || book.lapsed(consent.expiresAt) ? null : consent;
}

function free(item: AgendaItem): Work {
  return { item, ambiguous: null, consent: null, resumed: null, automatic: false };
}

function spending(item: AgendaItem, consent: Consent): Work {
  const resumed =
    consent.asker === 'capability'
      ? { accepted: true, option: null, payload: consent.payload }
      : null;
  return { ...free(item), consent, resumed };
}

function rejected(capability: string, code: string, message: string) {
  return { capability, status: 'rejected' as const, code, message };
}

function mistake(code: string, message: string): AgentError {
  return new AgentError(message, { code });
}
