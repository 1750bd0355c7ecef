// A journal as it would stand had the code asked otherwise: dispatches moved, dropped or answered in another's name.
//   T13  a strict pass over such a history tells what kind of edit a divergence is; nothing of it is ever written.

import type { TurnRef, TurnStore } from '../ports/store.ts';
import type { Sealer } from '../ports/vault.ts';
import { encode } from '../protocol/canonical.ts';
import { siteKey } from '../protocol/doubt.ts';
import { effectKey } from '../protocol/keys.ts';
import type { RecordBody, Site } from '../protocol/record.ts';
import type { HistoryRecord } from './history.ts';
import { History, openRecord } from './history.ts';

/** What a dispatch was, as far as its records say. */
interface Identity {
  readonly kind: string;
  readonly argsText: string;
}

export class EditedHistory {
  readonly #history: History;
  readonly #open: (record: HistoryRecord) => Promise<unknown>;
  readonly #identities = new Map<string, Promise<Identity | null>>();

  constructor(history: History, store: TurnStore, sealer: Sealer, ref: TurnRef) {
    this.#history = history;
    this.#open = (record) => openRecord(store, sealer, ref, record);
  }

  /** Ordinals recorded in one step and phase, ascending. */
  ordinals(of: Site): readonly number[] {
    const found = new Set<number>();
    for (const body of this.#history.bodies()) {
      if (!('site' in body)) continue;
      if (body.site.step === of.step && body.site.phase === of.phase) found.add(body.site.ordinal);
    }
    return [...found].sort((left, right) => left - right);
  }

  /** Kind and arguments recorded at a place; null when it holds no announcement. */
  identity(site: Site): Promise<Identity | null> {
    const key = siteKey(site);
    const known = this.#identities.get(key) ?? this.#read(key);
    this.#identities.set(key, known);
    return known;
  }

  async #read(key: string): Promise<Identity | null> {
    for (const record of this.#history.records) {
      const { body } = record;
      if (body.kind !== 'EffectStarted' && body.kind !== 'ActStaged') continue;
      if (siteKey(body.site) !== key) continue;
      const args = await this.#open(record);
      return args === undefined ? null : { kind: body.effect, argsText: encode(args) };
    }
    return null;
  }

  /** Key of the first attempt of what is recorded at `of`, had it been asked for at `at`. */
  async keyAt(of: Site, at: Site): Promise<string | null> {
    const identity = await this.identity(of);
    if (identity === null) return null;
    return effectKey({ ...at, attempt: 1, kind: identity.kind, args: identity.argsText });
  }

  /** Key of the first attempt of what is recorded at `of` under another kind. */
  async keyAs(of: Site, kind: string): Promise<string | null> {
    const identity = await this.identity(of);
    if (identity === null) return null;
    return effectKey({ ...of, attempt: 1, kind, args: identity.argsText });
  }

  /** The history with dispatches elsewhere; null from `to` drops one. */
  async moved(to: (site: Site) => Site | null): Promise<History> {
    const records: HistoryRecord[] = [];
    for (const record of this.#history.records) {
      const { body } = record;
      if (!('site' in body)) {
        records.push(record);
        continue;
      }
      const place = to(body.site);
      if (place === null) continue;
      records.push({ ...record, body: await this.#placed(body, place) });
    }
    return this.#rebuilt(records);
  }

  /** The history with one step under another name. */
  async renamed(from: string, name: string): Promise<History> {
    const moved = await this.moved((site) => (site.step === from ? { ...site, step: name } : site));
    return this.#rebuilt(
      moved.records.map((record) => {
        const { body } = record;
        return 'step' in body && body.step === from
          ? { ...record, body: { ...body, step: name } }
          : record;
      }),
    );
  }

  /**
   * The history with what `asked` asks for at its place, answered with what is recorded at `source`. With `instead`
   * it takes that dispatch's place; otherwise it is put before, and what follows in its step moves up by one.
   */
  async answered(
    asked: { readonly site: Site; readonly kind: string; readonly key: string },
    source: Site,
    instead: boolean,
  ): Promise<History | null> {
    const standIn = this.#standIn(asked, source);
    if (standIn === null) return null;
    const { site } = asked;
    const rest = await this.moved((one) => {
      if (one.step !== site.step || one.phase !== site.phase || one.ordinal < site.ordinal)
        return one;
      if (!instead) return { ...one, ordinal: one.ordinal + 1 };
      return one.ordinal === site.ordinal ? null : one;
    });
    const seq = standIn[0]?.body.seq ?? 0;
    const at = rest.records.findIndex(({ body }) => body.seq >= seq);
    const records = [...rest.records];
    records.splice(at < 0 ? records.length : at, 0, ...standIn);
    return this.#rebuilt(records);
  }

  /** One announcement and its last word, in another's name; null when `source` holds no such pair. */
  #standIn(
    asked: { readonly site: Site; readonly kind: string; readonly key: string },
    source: Site,
  ): readonly HistoryRecord[] | null {
    const { site, kind, key } = asked;
    const slice = this.#history.records.filter(
      ({ body }) => 'site' in body && siteKey(body.site) === siteKey(source),
    );
    const first = slice.find(({ body }) => body.kind === 'EffectStarted');
    const last = slice.findLast(
      ({ body }) => body.kind === 'EffectDone' || body.kind === 'EffectFailed',
    );
    if (first === undefined || last === undefined) return null;
    if (first.body.kind !== 'EffectStarted' || !('key' in last.body)) return null;
    return [
      { ...first, body: { ...first.body, site, key, effect: kind, attempt: 1 } },
      { ...last, body: { ...last.body, site, key } as RecordBody },
    ];
  }

  async #placed(
    body: Extract<RecordBody, { readonly site: Site }>,
    site: Site,
  ): Promise<RecordBody> {
    if (siteKey(site) === siteKey(body.site) || !('key' in body)) return body;
    const identity = await this.identity(body.site);
    if (identity === null) return { ...body, site };
    const attempt = this.#attemptOf(body);
    const { kind, argsText } = identity;
    return { ...body, site, key: effectKey({ ...site, attempt, kind, args: argsText }) };
  }

  /** A refusal stands for the attempt after the last one that was announced. */
  #attemptOf(of: { readonly key: string; readonly site: Site; readonly seq: number }): number {
    let last = 0;
    for (const body of this.#history.bodies()) {
      if (body.kind !== 'EffectStarted' || siteKey(body.site) !== siteKey(of.site)) continue;
      if (body.key === of.key) return body.attempt;
      if (body.seq < of.seq) last = body.attempt;
    }
    return last + 1;
  }

  #rebuilt(records: readonly HistoryRecord[]): History {
    return new History(records, this.#history.head, this.#history.positions);
  }
}
