import { defineConfig } from 'vitest/config';

const tiers = ['unit', 'conformance', 'simulation', 'replay', 'infra', 'e2e', 'guards'];
const timeouts: Readonly<Record<string, number>> = { e2e: 240_000, simulation: 120_000, conformance: 60_000, infra: 120_000 };

export default defineConfig({
  test: {
    projects: tiers.map((name) => ({
      test: {
        name,
        include: [`test/${name}/**/*.test.ts`],
        testTimeout: timeouts[name] ?? 20_000,
        hookTimeout: 180_000,
        pool: 'forks' as const,
      },
    })),
  },
});
