import { defineConfig } from 'vitest/config';

// One project a tier; scripts/test.ts runs them one after another.
const tiers: Readonly<Record<string, { timeoutMs: number; emulators?: true }>> = {
  guards: { timeoutMs: 20_000 },
  unit: { timeoutMs: 90_000 },
  replay: { timeoutMs: 20_000 },
  conformance: { timeoutMs: 60_000, emulators: true },
  simulation: { timeoutMs: 180_000, emulators: true },
  infra: { timeoutMs: 180_000 },
  e2e: { timeoutMs: 300_000 },
};

export default defineConfig({
  test: {
    projects: Object.entries(tiers).map(([name, tier]) => ({
      test: {
        name,
        include: [`test/${name}/**/*.test.ts`],
        testTimeout: tier.timeoutMs,
        hookTimeout: 300_000,
        pool: 'forks' as const,
        ...(tier.emulators === undefined ? {} : { globalSetup: ['test/setup/emulators.ts'] }),
      },
    })),
  },
});
