// Three rights of an operator stand apart: to answer a doubt, to reopen, to abandon (QA-7, ruling 23).
import { expect, test } from 'vitest';
import type { Grant, Identity } from '../../src/api/api-request.ts';
import { parseGrants } from '../../src/api/api-request.ts';
import { handle } from '../../src/api/handle.ts';
import { onEachStore } from '../stores.ts';
import { agentOf, Outside, Scene } from './scene.ts';

test('E112 grants come from a claim as text or as a list; an unknown word gives nothing', () => {
  expect(parseGrants('answer reopen')).toEqual(['answer', 'reopen']);
  expect(parseGrants('[abandon answer]')).toEqual(['answer', 'abandon']);
  expect(parseGrants(['reopen'])).toEqual(['reopen']);
  expect(parseGrants('answers, admin, *')).toEqual([]);
  expect(parseGrants('')).toEqual([]);
});

onEachStore(
  'E112 QA-7 who may answer cannot reopen, who may reopen can neither answer nor abandon: refused, nothing written [T13]',
  async (open) => {
    const outside = new Outside();
    const scene = new Scene(
      await open(),
      agentOf((context) =>
        context.effect(
          outside.effect({
            perform: async () => {
              outside.requests += 1;
              throw new Error('socket hang up');
            },
          }),
        ),
      ),
    );
    const { undecided } = await scene.conclude();
    const key = undecided[0]?.effectKey ?? '';
    const host = {
      runtime: scene.world.start().runtime,
      bounds: () => ({}),
      detach: () => undefined,
      pause: async () => undefined,
    };
    const post = async (path: string, body: object, grants: readonly Grant[] | null) => {
      const identity: Identity = {
        tenant: scene.ref().tenant,
        actor: 'olga',
        role: 'operator',
        ...(grants === null ? {} : { grants }),
      };
      const response = await handle(host, {
        method: 'POST',
        path: `/v1/threads/order-7/turns/t1/${path}`,
        query: new URLSearchParams(),
        headers: { 'content-type': 'application/json' },
        body: Buffer.from(JSON.stringify(body)),
        identity,
      });
      const { status, code, detail } = { ...JSON.parse(response.body), status: response.status };
      return { status, code, detail };
    };
    const fact = { outcome: 'landed', output: 1, note: 'seen' };
    const why = { reason: 'why' };
    const before = await scene.kinds();
    for (const [path, body, grants] of [
      ['reopen', why, ['answer']],
      ['abandon', why, ['answer']],
      [`undecided/${key}`, fact, ['reopen']],
      ['abandon', why, ['reopen']],
      [`undecided/${key}`, fact, ['abandon']],
      ['reopen', why, ['abandon']],
      ['reopen', why, []],
    ] as const) {
      expect(await post(path, body, grants)).toMatchObject({
        status: 403,
        code: 'forbidden',
        detail: expect.stringContaining('needs the grant'),
      });
      expect(await scene.kinds()).toEqual(before);
    }
    expect(await post(`undecided/${key}`, fact, ['answer'])).toMatchObject({ status: 200 });
    expect(await post('reopen', why, ['reopen'])).toMatchObject({ status: 200 });
    expect(await scene.view()).toMatchObject({ status: 'succeeded' });
    expect(outside.requests).toBe(1);
    // An issuer that does not tell them apart gives the role's whole rights.
    expect(await post('abandon', why, null)).toMatchObject({ status: 409 });
  },
);
