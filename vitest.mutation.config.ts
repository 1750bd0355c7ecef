import { defineConfig } from 'vitest/config';

// What a mutant of src/protocol is judged by: the fast, pure tests; `npm run mutate`.
export default defineConfig({
  test: {
    include: [
      'test/unit/protocol/**/*.test.ts',
      'test/unit/testing/undo-rules.test.ts',
      'test/replay/codec.test.ts',
    ],
    testTimeout: 20_000,
  },
});
