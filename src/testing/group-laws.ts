// What must hold in every state of the group model, judged on the durable words and on the world alone: no rule of
// the runtime is asked (page 01, sections 7 and 21).

import type { GroupState } from './group-model.ts';
import type { Script } from './group-program.ts';
import type { CallSpec } from './group-records.ts';

type Law = (state: GroupState) => string | null;

/** The laws, by name. */
export function lawsOf(script: Script): Readonly<Record<string, Law>> {
  const { members } = script;
  const names = (as: CallSpec['as']): readonly string[] =>
    members.filter((call) => call.as === as).map(({ name }) => name);
  const held = names('reversible');
  const gated = [...names('atomic'), ...names('deferred')];
  const reads = new Set(names('read'));
  const isMember = (name: string): boolean => members.some((call) => call.name === name);
  const mutating = members.map(({ name }) => name).filter((name) => !reads.has(name));
  return {
    'a gated member acts only past the frontier': ({ journal, world }) => {
      const out = gated.find((name) => world.includes(name));
      if (out === undefined) return null;
      if (!script.invariantHolds) return `${out} left over a false invariant`;
      if (script.ends !== 'commit') return `${out} left without a commit`;
      const at = announcedAt(journal, out);
      const missing = held.find((name) => !(doneAt(journal, name) < at));
      if (missing !== undefined) return `${out} left before ${missing} was known to stand`;
      const row = names('atomic').find((name) => name !== out && !(doneAt(journal, name) < at));
      return row === undefined ? null : `${out} left before ${row} was written`;
    },
    'an aborted group leaves nothing': ({ journal, world }) => {
      if (ending(journal) !== 'aborted') return null;
      const standing = held.find((name) => count(world, name) !== count(world, `undo-${name}`));
      if (standing !== undefined) return `${standing} stands`;
      const out = gated.find((name) => world.includes(name));
      return out === undefined ? null : `${out} is out`;
    },
    'a committed group stands whole': ({ journal, world }) => {
      if (ending(journal) !== 'committed') return null;
      const missing = mutating.find((name) => !world.includes(name));
      if (missing !== undefined) return `${missing} is missing`;
      const undone = held.find((name) => world.includes(`undo-${name}`));
      if (undone !== undefined) return `${undone} was taken back`;
      if (!script.invariantHolds) return 'an invariant is false';
      return script.ends === 'commit' ? null : 'nobody asked for the commit';
    },
    'an unsettled group never commits': ({ journal }) => {
      const at = journal.indexOf('GS committed');
      if (at < 0) return null;
      const open = members.find(({ name }) => !(doneAt(journal, name) < at));
      return open === undefined ? null : `${open.name} was not known to stand`;
    },
    'nothing is taken back after an irreversible member left': ({ journal, world }) => {
      const out = gated.find((name) => world.includes(name));
      const back = held.find((name) => announcedAt(journal, `undo-${name}`) < journal.length);
      return out === undefined || back === undefined
        ? null
        : `${out} is out, ${back} is taken back`;
    },
    'nothing happens twice': ({ world }) => {
      const twice = world.find((name, at) => world.indexOf(name) !== at);
      return twice === undefined ? null : `${twice} landed twice`;
    },
    'nothing lands unannounced': ({ journal, world }) => {
      const bare = world.find((name) => !journal.some((word) => word.startsWith(`ES ${name} `)));
      return bare === undefined ? null : `${bare} has no announcement`;
    },
    'what landed last is taken back first': ({ journal, world }) => {
      const undone = world.filter((name) => name.startsWith('undo-r'));
      const asked = undone.map((name) => name.slice('undo-'.length));
      const newest = asked.toSorted((x, y) => doneAt(journal, y) - doneAt(journal, x));
      if (asked.join() !== newest.join()) return `taken back as ${asked}`;
      const [a, s] = [world.indexOf('undo-a'), world.indexOf('undo-s')];
      if (a >= 0 && s > a) return 'an earlier step was undone first';
      const late = world.slice(a < 0 ? world.length : a).find((name) => name.startsWith('undo-r'));
      return late === undefined ? null : `${late} after a step was undone`;
    },
    'nothing is undone around a doubt': ({ journal }) => {
      const doubts: Doubts = new Map();
      for (const word of journal) {
        const [kind, name = ''] = word.split(' ');
        const undoes = name.startsWith('undo-');
        const open = openIn(doubts);
        // A reversal looks at its own group, an undo and the start of an unwind at the whole turn.
        const around = name.startsWith('undo-r') ? open.find((one) => isMember(one)) : open[0];
        const begins = (kind === 'ES' && undoes) || kind === 'US';
        if (begins && around !== undefined) return `${word} while ${around} was in doubt`;
        if (!undoes && !reads.has(name) && name !== 'w') hear(doubts, word);
      }
      return null;
    },
    'a group has one opening and one ending': ({ journal }) => {
      if (journal.filter((word) => word === 'GO').length > 1) return 'opened twice';
      const endings = journal.filter((word) => word.startsWith('GS ')).map((word) => word.slice(3));
      const [last] = endings.slice(-1);
      const before = endings.slice(0, -1);
      if (before.some((one) => one !== 'quarantined')) return `ended as ${endings}`;
      return before.length > 0 && last === 'quarantined' ? 'quarantined twice' : null;
    },
    'an ending says what stands': ({ journal, world }) => {
      const outcome = conclusion(journal);
      if (outcome === null) return null;
      const doubts = doubtful(journal, reads);
      const group = journal.includes('GO') ? ending(journal) : 'none';
      if (outcome === 'quarantined') return needless(script, journal, doubts);
      if (doubts.length > 0) return `${outcome} over a doubt: ${doubts}`;
      if (group === null) return `${outcome} over an unsettled group`;
      if (group === 'quarantined') return `${outcome} over a quarantined group`;
      const undone = world.includes('undo-a') || world.includes('undo-s');
      if (outcome === 'succeeded') {
        if (undone) return 'a success over undone work';
        const fine = group === 'committed' || script.ends === 'abort' || script.swallows;
        return fine ? null : `a success over a group that is ${group}`;
      }
      return world.includes('a') && !world.includes('undo-a') ? `${outcome}, and a stands` : null;
    },
    'a stop keeps new calls from starting': ({ journal, stop }) => {
      if (typeof stop !== 'number') return null;
      for (const [at, word] of journal.entries()) {
        if (at < stop || !/^ES (?!undo-|w )\S+ \S+ 1 /.test(word)) continue;
        const before = journal.slice(0, at);
        if (!gated.some((name) => doneAt(before, name) < at)) return `${word} after the stop`;
      }
      return null;
    },
    'code and journal never part': ({ journal }) =>
      journal.some((word) => word.endsWith(' divergence')) ? 'a divergence' : null,
    'a stop that was recorded is honoured': ({ journal, stop, from }) =>
      stop !== 'none' && from === null && journal.at(-1)?.startsWith('RC succeeded') === true
        ? 'a success after a stop'
        : null,
  };
}

/** Where a call was first announced; past the end when it was not. */
function announcedAt(journal: readonly string[], name: string): number {
  const at = journal.findIndex((word) => word.startsWith(`ES ${name} `));
  return at < 0 ? journal.length : at;
}

/** Where a call is known to have landed, or infinity. */
function doneAt(journal: readonly string[], name: string): number {
  const at = journal.findIndex(
    (word) =>
      word.startsWith(`ED ${name} `) ||
      (word.startsWith(`ER ${name} `) && word.includes(' landed ')),
  );
  return at < 0 ? Number.POSITIVE_INFINITY : at;
}

function count(world: readonly string[], name: string): number {
  return world.filter((one) => one === name).length;
}

function ending(journal: readonly string[]): string | null {
  return journal.findLast((word) => word.startsWith('GS '))?.slice(3) ?? null;
}

function conclusion(journal: readonly string[]): string | null {
  const last = journal.at(-1) ?? '';
  return last.startsWith('RC ') ? (last.split(' ')[1] ?? null) : null;
}

/** Sends of each call that nobody has settled, by attempt. */
type Doubts = Map<string, Set<string>>;

/** What one word says of its call: a refusal speaks of its own send alone (ruling 1). */
function hear(doubts: Doubts, word: string): void {
  const [kind, name = '', , attempt = '', disposition] = word.split(' ');
  const sends = doubts.get(name) ?? new Set();
  doubts.set(name, sends);
  if (kind === 'ES' || disposition === 'in_doubt') sends.add(attempt);
  else if (kind === 'EF') sends.delete(attempt);
  else if (kind === 'ED' || kind === 'ER') sends.clear();
}

function openIn(doubts: Doubts): readonly string[] {
  return [...doubts].flatMap(([name, sends]) => (sends.size > 0 ? [name] : []));
}

function doubtful(journal: readonly string[], reads: ReadonlySet<string>): readonly string[] {
  const doubts: Doubts = new Map();
  for (const word of journal) hear(doubts, word);
  return openIn(doubts).filter((name) => !reads.has(name) && name !== 'w');
}

/** A quarantine names a doubt, a garbled answer, a failed undo, or a gated member that failed past the frontier. */
function needless(
  script: Script,
  journal: readonly string[],
  doubts: readonly string[],
): string | null {
  if (doubts.length > 0) return null;
  const has = (pattern: RegExp): boolean => journal.some((word) => pattern.test(word));
  if (has(/^EF (?!look)\S+ \S+ \d+ landed/)) return null;
  if (has(/^E[FR] undo-\S+ \S+ \d+ did_not_happen/)) return null;
  const out = has(/^ED (row|d\d) /) || has(/^ER d\d \S+ \d+ landed/);
  if (out && has(/^E[FR] d\d \S+ \d+ did_not_happen/)) return null;
  const stands = ending(journal) === 'committed' && script.declared === 'undeclared';
  const failed = script.failsAfter || journal.includes('RX');
  return stands && failed ? null : 'quarantined, and nothing is in doubt';
}
