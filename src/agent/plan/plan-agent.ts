// The plan agent: an agent that is only JSON (page 05). Its whole behaviour comes from the turn's input.
import type { HttpCaller } from '../../ports/http-caller.ts';
import type { AgentDefinition } from '../../runtime/agent-definition.ts';
import { defineTurnAgent } from '../../runtime/agent-definition.ts';
import { checkPlan, subjectOfPlan } from './check-plan.ts';
import { actEffect } from './plan-effect.ts';
import { operations } from './plan-language.ts';
import { runPlan } from './run-plan.ts';

/** The agent named `plan`; `parseInput` refuses a bad plan before anything is written. */
export function planAgent(http: HttpCaller): AgentDefinition {
  return defineTurnAgent({
    name: 'plan',
    authority: { language: 1, operations: Object.keys(operations).sort() },
    frozenPlan: true,
    parseInput: (input) => {
      checkPlan(input);
      return input;
    },
    subjectOf: (input) => subjectOfPlan(checkPlan(input)),
    act: (kind, args) => actEffect(kind, args, http),
    run: (context, input) => runPlan(context, checkPlan(input), http),
  });
}
