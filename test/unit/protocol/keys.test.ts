import { expect, test } from 'vitest';
import {
  businessIdempotencyKey,
  effectKey,
  idempotencyKey,
  intentId,
} from '../../../src/protocol/keys.ts';

const base = {
  step: 'reserve',
  phase: 'forward' as const,
  ordinal: 0,
  attempt: 1,
  kind: 'inventory.reserve',
  args: '{"sku":"A","n":1}',
};
const site = {
  tenant: 'acme',
  thread: 'order-7',
  turnId: 't1',
  step: 'reserve',
  phase: 'forward' as const,
  ordinal: 0,
};

test('E25 every input of an effect key changes it [T5 T7]', () => {
  const keys = [
    base,
    { ...base, step: 'charge' },
    { ...base, phase: 'compensating' as const },
    { ...base, ordinal: 1 },
    { ...base, attempt: 2 },
    { ...base, kind: 'inventory.release' },
    { ...base, args: '{"sku":"A","n":2}' },
  ].map(effectKey);
  expect(new Set(keys).size).toBe(7);
});

test('E26 a boundary shifted between kind and arguments gives another key [T7]', () => {
  const left = effectKey({ ...base, kind: 'ab', args: 'c1' });
  const right = effectKey({ ...base, kind: 'a', args: 'bc1' });
  expect(left).not.toBe(right);
});

test('effect keys are frozen by vectors (ruling 9) [T7]', () => {
  expect(effectKey(base)).toBe('zHfaKpaczMiRNNyepuOo55GhQdAMzLsXU9bG5POgwJ0');
  const foreign = {
    step: '',
    phase: 'compensating' as const,
    ordinal: 7,
    attempt: 3,
    kind: 'é',
    args: 'null',
  };
  expect(effectKey(foreign)).toBe('6T2m1MDaY6_1B_KYIa0sq9A_Oy5CrJI0MPJQ_hJLpJA');
});

test('keys that leave the house are frozen, opaque and 43 URL-safe characters (ruling 9)', () => {
  expect(idempotencyKey(site)).toBe('fElIBiUYpoCzgV-3a5ILpizUimpxJG-fpPGMNsEdH1g');
  const business = businessIdempotencyKey({
    tenant: 'acme',
    thread: 'order-7',
    kind: 'charge',
    key: 'pi_1',
  });
  expect(business).toBe('TS5x20peLi8ynHIzXRLWkwCbkT9qNZwE7t9XUoEhz3A');
  expect(idempotencyKey(site)).toMatch(/^[A-Za-z0-9_-]{43}$/);
});

test('two tenants, threads, turns or effects never share a provider key (K-28)', () => {
  const keys = [
    site,
    { ...site, tenant: 'other' },
    { ...site, thread: 'order-8' },
    { ...site, turnId: 't2' },
    { ...site, ordinal: 1 },
    { ...site, step: '' },
  ].map(idempotencyKey);
  expect(new Set(keys).size).toBe(6);
});

test('T72 T77 intent ids equal their golden vectors, differ by position and by agent (B-09, B-12)', () => {
  expect(intentId({ ...site, agent: 'plan' })).toBe('9e0dd7ea-a5b6-51c7-89cd-60363348ecf1');
  expect(intentId({ ...site, agent: 'plan', ordinal: 1 })).toBe(
    '8030e001-c0bf-5662-95b6-31bf92308b89',
  );
  expect(intentId({ ...site, agent: 'shop' })).toBe('7d883cd5-d2ae-513a-a472-7bc16a73fbd7');
});
