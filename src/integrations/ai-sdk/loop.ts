// What stops a loop of the AI SDK from inside its turn.
//
// The SDK tells a tool's error to the model and goes on. That is right for a failure that was decided, and wrong
// for a doubt or a ceiling: a model that hears of a doubt asks for the same act again (T6). So what stops the
// turn is kept here, and the loop's next completion throws it.
import type { TurnContext } from '../../runtime/turn-context.ts';
import { BudgetExhaustedError, EffectError, TurnDroppedError } from '../../runtime/turn-context.ts';

interface Loop {
  /** Stops every later completion of the turn. */
  stop: unknown;
  /** Why the last completion failed; gone with the next that succeeds. */
  failed: unknown;
}

const loops = new WeakMap<TurnContext, Loop>();

function loopOf(context: TurnContext): Loop {
  const known = loops.get(context);
  if (known !== undefined) return known;
  const loop: Loop = { stop: null, failed: null };
  loops.set(context, loop);
  return loop;
}

/** Remembers what a tool threw, when no model may hear of it. */
export function toolThrew(context: TurnContext, error: unknown): void {
  const stops =
    error instanceof BudgetExhaustedError ||
    error instanceof TurnDroppedError ||
    (error instanceof EffectError && error.undecided);
  if (stops) loopOf(context).stop ??= error;
}

/** Runs a completion of the loop, unless something has stopped it. */
export async function inLoop<T>(context: TurnContext, complete: () => Promise<T>): Promise<T> {
  const loop = loopOf(context);
  if (loop.stop !== null) throw loop.stop;
  try {
    const answer = await complete();
    loop.failed = null;
    return answer;
  } catch (error) {
    loop.failed = error;
    throw error;
  }
}

/**
 * What a loop came to: `await loopResult(context, streamText({...}).text)`. Throws what stopped or failed the loop,
 * which `streamText` puts into its stream and `stopWhen` may leave unasked.
 */
export async function loopResult<T>(context: TurnContext, result: PromiseLike<T>): Promise<T> {
  const loop = loopOf(context);
  try {
    const value = await result;
    const stopped = loop.stop ?? loop.failed;
    if (stopped !== null) throw stopped;
    return value;
  } catch (error) {
    throw loop.stop ?? loop.failed ?? error;
  }
}
