// The reply: every result of this turn once, in its own words or a model's, and the one question there is.
//
//   K-90  a model's wording cites what each part is based on; checked, reviewed, worded once more, then given up
//         for the results' own words: business that is done is never lost for its wording (K-16).
//   K-91  every result of this turn is cited exactly once; older facts create no duty.
//   K-92  protected text goes to the person as it is, and to no model.
import type { TurnContext } from '../../runtime/turn-context.ts';
import type { CompiledAgent } from './compiled-agent.ts';
import { projected, redacted } from './interpret.ts';
import { askOnce, groundingPhase, replyPhase } from './model-words.ts';
import type { TurnBook } from './turn-book.ts';

export interface Reply {
  readonly text: string;
  /** The part models may see later. */
  readonly open: string;
  readonly sealed: readonly string[];
  readonly wording: 'model' | 'results';
}

interface Evidence {
  readonly id: string;
  readonly text: string;
}

/** Composes the reply; never throws for its wording. */
export async function respond(
  context: TurnContext,
  agent: CompiledAgent,
  book: TurnBook,
): Promise<Reply> {
  const results = resultsOf(book);
  const sealed = book.steps.flatMap((step) => (step.protected === true ? [step.message] : []));
  const own = results.map(({ text }) => text).join('\n');
  const worded =
    agent.wording === 'model' && results.length > 0
      ? await wordedBy(context, agent, book, results)
      : null;
  const open = worded ?? own;
  const text = [open, ...sealed].filter((part) => part !== '').join('\n');
  return { text, open, sealed, wording: worded === null ? 'results' : 'model' };
}

/** What has to be said: results, refusals, and the question last. */
function resultsOf(book: TurnBook): readonly Evidence[] {
  const asked = book.state.interaction;
  const said = book.steps
    .filter((step) => step.protected !== true && step.status !== 'asked')
    .map(({ message }) => message);
  const questions = asked === null ? unaskedInputs(book) : [asked.text];
  return [...said, ...questions].map((text, index) => ({ id: `r${index + 1}`, text }));
}

/** Questions that gave way to nothing that is still pending. */
function unaskedInputs(book: TurnBook): readonly string[] {
  return book.steps.filter(({ status }) => status === 'asked').map(({ message }) => message);
}

async function wordedBy(
  context: TurnContext,
  agent: CompiledAgent,
  book: TurnBook,
  results: readonly Evidence[],
): Promise<string | null> {
  const guide = [
    agent.guidance,
    'Write the reply in parts. Each part cites the ids of the results it tells; every result is told exactly once,',
    'and nothing is told that is not in them.',
    `Results: ${JSON.stringify(results)}`,
  ].join('\n');
  const messages = projected(agent, book.state);
  let problem = '';
  for (let attempt = 0; attempt < 2; attempt += 1) {
    const instructions = redacted(agent, problem === '' ? guide : `${guide}\nNot so: ${problem}`);
    const answer = await askOnce(context, agent.model, replyPhase, instructions, messages);
    if (!('value' in answer)) {
      problem = answer.issues;
      continue;
    }
    const { parts } = answer.value;
    const fault = citationFault(parts, results);
    if (fault === null && (await supported(context, agent, parts, results))) {
      return parts.map(({ text }) => text).join(' ');
    }
    problem = fault ?? 'it says more than the results do';
  }
  return null;
}

/** Every part cites known results, and every result is cited exactly once. */
function citationFault(
  parts: readonly { readonly text: string; readonly cites: readonly string[] }[],
  results: readonly Evidence[],
): string | null {
  const bare = parts.find(({ cites }) => cites.length === 0);
  if (bare !== undefined) return `"${bare.text}" cites nothing`;
  const cited = parts.flatMap(({ cites }) => cites);
  const unknown = cited.find((id) => !results.some((result) => result.id === id));
  if (unknown !== undefined) return `there is no result "${unknown}"`;
  const missed = results.find(({ id }) => cited.filter((other) => other === id).length !== 1);
  return missed === undefined ? null : `result ${missed.id} has to be cited exactly once`;
}

async function supported(
  context: TurnContext,
  agent: CompiledAgent,
  parts: readonly { readonly text: string; readonly cites: readonly string[] }[],
  results: readonly Evidence[],
): Promise<boolean> {
  const guide = 'Does every part say only what the results it cites say?';
  const text = redacted(agent, JSON.stringify({ parts, results }));
  const answer = await askOnce(context, agent.model, groundingPhase, guide, [
    { role: 'user', text },
  ]);
  return 'value' in answer && answer.value.supported;
}
