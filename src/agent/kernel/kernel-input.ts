// What a person sends to an agent of the kernel: words, a click on an option, a yes or no, or a cancellation.
//
//   K-45, K-57  a yes or no names the question that was seen. Words count as an answer only with that name too:
//               a model says what they mean, never which question they are for.
import * as v from 'valibot';
import type { InputSchema } from '../../runtime/input-schema.ts';

const id = v.pipe(v.string(), v.minLength(1), v.maxLength(256));

const delivery = v.pipe(
  v.strictObject({
    message: v.optional(v.pipe(v.string(), v.minLength(1), v.maxLength(32_768))),
    /** The interaction that was shown when `message` was written. */
    answering: v.optional(id),
    /** A yes or no to a confirmation; only `true` and `false` are answers. */
    confirm: v.optional(v.strictObject({ interactionId: id, value: v.unknown() })),
    /** A click on an option. */
    select: v.optional(v.strictObject({ interactionId: id, option: v.string() })),
    /** Gives the pending work up, which is not a no (K-58). */
    cancel: v.optional(v.strictObject({ interactionId: id })),
  }),
  v.check(
    (sent) => sent.message !== undefined || clicks(sent) === 1,
    'expected a message, confirm, select or cancel',
  ),
  v.check((sent) => clicks(sent) <= 1, 'expected at most one of confirm, select and cancel'),
);

export type Delivery = v.InferOutput<typeof delivery>;

export const deliverySchema: InputSchema<Delivery> = delivery;

function clicks(sent: { confirm?: unknown; select?: unknown; cancel?: unknown }): number {
  return [sent.confirm, sent.select, sent.cancel].filter((part) => part !== undefined).length;
}
