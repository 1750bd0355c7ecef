// The research example as a user copies it, on both stores: what its header promises holds.
import { expect, test } from 'vitest';
import { agents, research } from '../../src/examples/research.ts';
import type { HttpCaller, HttpRequest, HttpResult } from '../../src/ports/http-caller.ts';
import { answerApproval, listApprovals } from '../../src/runtime/answer-approval.ts';
import { memoryStore, onEachStore } from '../stores.ts';
import { Scene } from './scene.ts';
import { type Line, Talk } from './talk.ts';

const desk = 'https://desk.example';
const article = { title: 'Tides', text: 'The moon does it.' };

/** The desk: it knows the keys it was sent, and what it published. */
class Desk implements HttpCaller {
  readonly calls: string[] = [];
  readonly articles = new Map<unknown, { id: string }>();

  async call({ method, url, headers }: HttpRequest): Promise<HttpResult> {
    this.calls.push(`${method} ${url.slice(desk.length)}`);
    const key = headers['idempotency-key'];
    if (method === 'POST') this.articles.set(key, { id: `a-${this.articles.size + 1}` });
    if (method === 'DELETE') this.articles.clear();
    const body = method === 'POST' ? this.articles.get(key) : [{ hit: 'moon' }];
    return { kind: 'done', answer: { status: 200, headers: {}, body } };
  }
}

const lines: readonly Line[] = [
  {
    calls: [
      ['search', { query: 'tides' }],
      ['search', { query: 'the moon' }],
    ],
  },
  { calls: [['publish', article]] },
  { text: 'Published.' },
];

async function answer(scene: Scene, decision: 'approve' | 'deny'): Promise<void> {
  const { runtime } = scene.process;
  const { tenant } = scene.ref();
  const asked = { status: 'pending', limit: 10, cursor: null } as const;
  const [only, ...others] = (await listApprovals(runtime, tenant, asked)).items;
  if (only === undefined || others.length > 0) throw new Error('expected one approval');
  expect(only).toMatchObject({
    summary: 'publish "Tides"',
    action: { tool: 'publish', input: article },
  });
  const given = { decision, digest: only.digest, note: 'not now' };
  await answerApproval(runtime, tenant, only.id, given, 'bob');
  await scene.inbox();
}

const input = { question: 'Why are there tides?' };

onEachStore(
  'research: searches run, the article waits for an editor, and the loop goes on where it stood [T7 T10]',
  async (open) => {
    const [talk, world] = [new Talk(lines), new Desk()];
    const scene = new Scene(await open(), research(talk.model, world, desk));
    await scene.suspend('t1', { input });
    expect(world.calls).toEqual(['GET /search?q=tides', 'GET /search?q=the%20moon']);
    await answer(scene, 'approve');
    expect(await scene.view()).toMatchObject({
      status: 'succeeded',
      result: { text: 'Published.', tokens: 45 },
      spend: { tokens: 45 },
    });
    expect([world.articles.size, talk.seen.length]).toEqual([1, 3]);
    expect(await scene.strict()).toMatchObject({ verdict: 'verified' });
  },
);

test('research: an article the editor refuses is not published, and the model is told why [T10]', async () => {
  const [talk, world] = [new Talk(lines), new Desk()];
  const scene = new Scene(memoryStore(), research(talk.model, world, desk));
  await scene.suspend('t1', { input });
  await answer(scene, 'deny');
  expect(await scene.view()).toMatchObject({ status: 'succeeded' });
  expect(world.articles.size).toBe(0);
  expect(JSON.stringify(talk.seen[2]?.prompt.at(-1))).toContain('it was denied: not now');
});

test('research: a turn whose last completion fails withdraws its article [T8]', async () => {
  const [talk, world] = [new Talk(lines.slice(0, 2)), new Desk()];
  const scene = new Scene(memoryStore(), research(talk.model, world, desk));
  await scene.suspend('t1', { input });
  await answer(scene, 'approve');
  expect(await scene.view()).toMatchObject({ status: 'failed' });
  expect(world.calls.slice(2)).toEqual(['POST /articles', 'DELETE /articles']);
  expect(world.articles.size).toBe(0);
});

test('research: the module offers its agent to a host', () => {
  const [agent] = agents({ http: new Desk(), env: { MODEL: 'openai/gpt-5-mini' } });
  expect(agent?.name).toBe('research');
  expect(agent?.declares('tool.delete')).toBe(false);
  expect(() => agent?.parseInput({ question: '' })).toThrow(/^input\.question: /);
});
