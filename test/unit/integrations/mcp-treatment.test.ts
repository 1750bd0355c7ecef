// A server's hints make the treatment of its tools stricter, never looser; its refusals are told from its silences.
import { ErrorCode, McpError } from '@modelcontextprotocol/sdk/types.js';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { callFailure, type McpHints } from '../../../src/integrations/mcp/mcp-server.ts';
import { type McpTreatment, strictest } from '../../../src/integrations/mcp/mcp-treatment.ts';
import { EffectFailure } from '../../../src/runtime/turn-context.ts';

const nobodys = { mutates: true, recovery: 'operator', approval: true };

test.each<[McpTreatment | undefined, McpHints, object]>([
  [undefined, {}, nobodys],
  [undefined, { readOnly: true, idempotent: true, destructive: false }, nobodys],
  [{ mutates: false }, {}, { mutates: false }],
  [{ mutates: false }, { readOnly: false }, { mutates: true, recovery: 'operator' }],
  [
    { mutates: false, recovery: 'retry' },
    { readOnly: false },
    { mutates: true, recovery: 'operator' },
  ],
  [{}, { readOnly: true }, { mutates: true }],
  [{ recovery: 'idempotent' }, { idempotent: false }, { mutates: true, recovery: 'operator' }],
  [{ recovery: 'idempotent' }, {}, { mutates: true, recovery: 'idempotent' }],
  [{ recovery: 'reconcile' }, { idempotent: false }, { mutates: true, recovery: 'reconcile' }],
  [{ approval: false }, { destructive: true }, { mutates: true, approval: true }],
  [{ mutates: false }, { destructive: true, readOnly: true }, { mutates: false }],
  [
    { mutates: false, recovery: 'retry', hints: 'ignore' },
    { readOnly: false, destructive: true },
    { mutates: false, recovery: 'retry' },
  ],
])('declared %j, hinted %j: %j [T6 T10]', (declared, hints, expected) => {
  expect(strictest(declared, hints)).toEqual(expected);
});

const recoveries = ['retry', 'idempotent', 'reconcile', 'operator'] as const;
const hint = fc.option(fc.boolean(), { nil: undefined });
const some = <T extends object>(value: T): Partial<T> =>
  Object.fromEntries(
    Object.entries(value).filter(([, member]) => member !== undefined),
  ) as Partial<T>;

test('no hint loosens a declaration [T6 T10]', () => {
  const declared = fc.record({
    mutates: fc.option(fc.boolean(), { nil: undefined }),
    recovery: fc.option(fc.constantFrom(...recoveries), { nil: undefined }),
    approval: fc.option(fc.boolean(), { nil: undefined }),
  });
  const hints = fc.record({ readOnly: hint, destructive: hint, idempotent: hint });
  fc.assert(
    fc.property(declared, hints, (given, hinted) => {
      const treatment = some(given) as McpTreatment;
      const bare = strictest(treatment, {});
      const strict = strictest(treatment, some(hinted) as McpHints);
      if (bare.mutates === true) expect(strict.mutates).toBe(true);
      if (bare.approval === true) expect(strict.approval).toBe(true);
      const waits = bare.mutates === true && (bare.recovery ?? 'operator') === 'operator';
      if (waits) expect(strict.recovery ?? 'operator').toBe('operator');
    }),
  );
});

test.each([
  [ErrorCode.InvalidParams, true, true],
  [ErrorCode.MethodNotFound, true, true],
  [ErrorCode.InvalidRequest, true, true],
  [ErrorCode.ParseError, true, true],
  [ErrorCode.InternalError, false, false],
  [ErrorCode.ConnectionClosed, false, false],
  [ErrorCode.RequestTimeout, false, false],
] as const)('JSON-RPC %i proves that the tool did not run: %s [T6]', (code, refused, permanent) => {
  const failure = callFailure(new McpError(code, 'no'));
  expect(failure instanceof EffectFailure).toBe(refused);
  if (failure instanceof EffectFailure)
    expect(failure).toMatchObject({ disposition: 'did_not_happen', permanent });
});

test.each([
  [401, true, true],
  [404, true, false],
  [429, true, false],
  [500, false, false],
  [502, false, false],
] as const)('HTTP %i proves that the tool did not run: %s [T6]', (status, refused, permanent) => {
  const failure = callFailure(Object.assign(new Error('no'), { code: status }));
  expect(failure instanceof EffectFailure).toBe(refused);
  if (failure instanceof EffectFailure) expect(failure.permanent).toBe(permanent);
});
