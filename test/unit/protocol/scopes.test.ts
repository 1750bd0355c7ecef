// Names of sealing scopes: another generation is another scope, and the key row is the same (T12).
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { isSubjectScope, scopeTag, splitScope } from '../../../src/protocol/scopes.ts';

test('T12 the first generation is not named, a later one is; both are read back', () => {
  expect(scopeTag('s1', 0)).toBe('s1');
  expect(scopeTag('s1', 1)).toBe('s1');
  expect(scopeTag('s1', 2)).toBe('s1~2');
  expect(splitScope('s1')).toEqual({ base: 's1', generation: 1 });
  expect(splitScope('s1~12')).toEqual({ base: 's1', generation: 12 });
  expect(splitScope('~2')).toEqual({ base: '', generation: 2 });
  fc.assert(
    fc.property(fc.string(), fc.integer({ min: 2, max: 99 }), (base, generation) => {
      expect(splitScope(scopeTag(base, generation))).toEqual({ base, generation });
    }),
  );
});

test("T12 a scope of a person is told from a tenant's", () => {
  expect([isSubjectScope('s1'), isSubjectScope('s1~2'), isSubjectScope('t1s')]).toEqual([
    true,
    true,
    false,
  ]);
});
