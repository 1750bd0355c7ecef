// Starts the emulators once for the tiers that need DynamoDB, and tells the tests where they are.
import type { TestProject } from 'vitest/node';
import type { Started } from '../../scripts/local-aws.ts';
import { startMinistack, startMoto } from '../../scripts/local-aws.ts';

declare module 'vitest' {
  export interface ProvidedContext {
    /** Endpoints by name, or the reason why there is none. */
    readonly dynamodb: { readonly ministack: Endpoint; readonly moto: Endpoint };
  }
}

export type Endpoint = { readonly url: string } | { readonly unavailable: string };

function endpoint(started: Started): Endpoint {
  return started.kind === 'started' ? { url: started.url } : { unavailable: started.reason };
}

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const log = `${project.name}-ministack`;
  const [ministack, moto] = await Promise.all([startMinistack({ log }), startMoto()]);
  project.provide('dynamodb', { ministack: endpoint(ministack), moto: endpoint(moto) });
  return async () => {
    for (const started of [ministack, moto]) if (started.kind === 'started') await started.stop();
  };
}
