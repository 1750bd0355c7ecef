// The composition root of the embedded server: one process over one data folder.
//
// Owns: which adapters are wired, the sweep loop and the drain. Several processes over one folder are
// legal: the store fences them, and whatever dies with a process is found again by a sweep.
//   T4/EP-6  a planned stop announces nothing new, lets effects in flight finish and hands leases back.

import { randomUUID } from 'node:crypto';
import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { allowList, parseAllow } from '../adapters/http/allow-list.ts';
import { NodeHttpCaller } from '../adapters/http/node-http-caller.ts';
import { FileQueue } from '../adapters/local/file-queue.ts';
import { LineQueue } from '../adapters/local/line-queue.ts';
import { LocalVault, openLocalSecrets } from '../adapters/local/local-vault.ts';
import { CedarPolicy } from '../adapters/policy/cedar-policy.ts';
import { openSqliteStore } from '../adapters/sqlite/open-sqlite-store.ts';
import { systemClock, systemEntropy } from '../adapters/system/system-clock.ts';
import { type AgentsModule, agentsOf } from '../agent/agents-module.ts';
import { planAgent } from '../agent/plan/plan-agent.ts';
import type { ApiHost } from '../api/handler.ts';
import type { TurnRef } from '../ports/store.ts';
import type { Telemetry } from '../ports/telemetry.ts';
import { describeError } from '../protocol/errors.ts';
import type { EpochMs } from '../protocol/ids.ts';
import { limits } from '../protocol/limits.ts';
import { handleInboxBatch } from '../runtime/drive.ts';
import { handleIntentBatch } from '../runtime/effector.ts';
import { dueMessage } from '../runtime/inbox-message.ts';
import type { Runtime } from '../runtime/runtime.ts';
import { sweep } from '../runtime/sweep.ts';
import type { LocalSettings } from './settings.ts';

export interface LocalHost extends ApiHost {
  /** Starts consuming and sweeping. */
  start(): void;
  /** Drains: resolves when nothing runs any more or `drainMs` passed; true when everything came to rest. */
  drain(drainMs: number): Promise<boolean>;
}

/** Opens the data folder and wires a host over it. */
export function localHost(
  settings: LocalSettings,
  telemetry: Telemetry,
  own: AgentsModule = { agents: () => [] },
): LocalHost {
  mkdirSync(settings.data, { recursive: true, mode: 0o700 });
  const secrets = openLocalSecrets(join(settings.data, 'keys'));
  const store = openSqliteStore({
    path: join(settings.data, 'turnstone.sqlite'),
    keysPath: join(settings.data, 'keys', 'keys.sqlite'),
    names: secrets,
    ...(own.ownTables === undefined ? {} : { ownTables: own.ownTables }),
    sleep: (ms) => systemClock.sleep(ms),
    random: Math.random,
  });
  const http = new NodeHttpCaller(allowList(parseAllow(settings.httpAllow), { loopback: true }));
  const queueOf = (name: string): FileQueue =>
    new FileQueue({
      clock: systemClock,
      path: join(settings.data, 'queues.sqlite'),
      name,
      visibleMs: settings.leaseMs,
      onTrouble: ({ id, reason }) => telemetry.emit('queue.trouble', { queue: name, id, reason }),
    });
  const inbox = queueOf('inbox');
  const intents = queueOf('intents');
  const work = new Set<Promise<unknown>>();
  const drain = new AbortController();
  const track = (promise: Promise<unknown>): void => {
    const tracked = promise
      .catch((error: unknown) =>
        telemetry.emit('work.failed', { reason: describeError(error).message }),
      )
      .finally(() => work.delete(tracked));
    work.add(tracked);
  };
  const policy =
    settings.policy === undefined
      ? {}
      : { policy: new CedarPolicy(readFileSync(settings.policy, 'utf8')) };
  const runtime: Runtime = {
    store,
    ...policy,
    vault: new LocalVault(secrets, systemClock.monotonicMs),
    queues: {
      inbox,
      events: new LineQueue('event', telemetry),
      intents,
      errors: new LineQueue('error', telemetry),
    },
    clock: systemClock,
    entropy: systemEntropy,
    telemetry,
    agents: agentsOf([planAgent(http)], own, settings.agents ?? 'agents', {
      http,
      env: process.env,
    }),
    owner: `local-${process.pid}-${randomUUID()}`,
    settings: {
      leaseMs: settings.leaseMs,
      turnTimeoutMs: settings.turnTimeoutMs,
      reserveMs: 0,
      renew: true,
      ...(settings.tenantBudget === undefined ? {} : { tenantBudget: settings.tenantBudget }),
    },
    alarm: async (ref, at) => alarm(runtime, ref, at, track),
    later: (job) => {
      track(job());
      return Promise.resolve();
    },
  };
  const sweeper = sweepLoop(runtime, track);
  return {
    runtime,
    bounds: () => ({ drain: drain.signal }),
    detach: track,
    pause: (ms) => systemClock.sleep(Math.max(1, ms)),
    start: () => {
      const bounds = { drain: drain.signal };
      const { work: does } = settings;
      if (does.has('turns')) inbox.consume((batch) => handleInboxBatch(runtime, batch, bounds));
      if (does.has('effects'))
        intents.consume((batch) => handleIntentBatch(runtime, batch, bounds));
      if (does.has('sweep')) sweeper.start();
    },
    drain: async (drainMs) => {
      drain.abort(new Error('the process is stopping'));
      sweeper.stop();
      const rest = Promise.all([inbox.stop(), intents.stop(), settled(work)]).then(() => true);
      const late = systemClock.sleep(drainMs).then(() => false);
      const clean = await Promise.race([rest, late]);
      if (clean) {
        for (const queue of [inbox, intents]) queue.close();
        await store.close();
      }
      return clean;
    },
  };
}

/** A deadline soon enough is met on time; the sweep finds every other one, and this one after a crash. */
function alarm(
  runtime: Runtime,
  ref: TurnRef,
  at: EpochMs,
  track: (promise: Promise<unknown>) => void,
): void {
  const left = at - runtime.clock.now();
  if (left > limits.alarmMaxMs) return;
  runtime.clock.timer(Math.max(0, left), () => {
    track(runtime.queues.inbox.send([dueMessage(ref, at)]));
  });
}

async function settled(work: ReadonlySet<Promise<unknown>>): Promise<void> {
  while (work.size > 0) await Promise.allSettled(work);
}

/** One timer a process: the next sweep starts a period after the last one ended. */
function sweepLoop(runtime: Runtime, track: (promise: Promise<unknown>) => void) {
  let cancel = (): void => undefined;
  let stopped = false;
  const once = async (): Promise<void> => {
    try {
      await sweep(runtime);
    } finally {
      if (!stopped) cancel = runtime.clock.timer(limits.sweepPeriodMs, () => track(once()));
    }
  };
  return {
    start: () => track(once()),
    stop: () => {
      stopped = true;
      cancel();
    },
  };
}
