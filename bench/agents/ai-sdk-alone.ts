// Contender: the AI SDK alone. It keeps nothing, so whoever restarts it starts over.
import { generateText, isStepCount } from 'ai';
import { mockModel, toolSet } from './mock-model.ts';
import { prompt, started } from './script.ts';

const { provider } = started();
const { text } = await generateText({
  model: mockModel(provider),
  tools: toolSet(provider, ({ toolCallId }) => toolCallId),
  prompt,
  stopWhen: isStepCount(9),
});
process.stdout.write(text);
