// Clauses and changes as expressions. Every name is aliased: reserved words are many and grow (page 04, 1.8).
import type { AttributeValue } from '@aws-sdk/client-dynamodb';
import type { Attr, Change, Clause } from '../table/driver.ts';
import { toAttribute } from './attribute-values.ts';

const comparators = { eq: '=', lt: '<', le: '<=', gt: '>', ge: '>=' } as const;

/** Collects the aliases of one operation's expressions. */
export class Expressions {
  readonly #names = new Map<string, string>();
  readonly #values: AttributeValue[] = [];

  /** Members for the request; absent where there is nothing to alias. */
  aliases(): {
    ExpressionAttributeNames?: Record<string, string>;
    ExpressionAttributeValues?: Record<string, AttributeValue>;
  } {
    const names = Object.fromEntries([...this.#names].map(([name, alias]) => [alias, name]));
    const values = Object.fromEntries(this.#values.map((value, at) => [`:v${at}`, value]));
    return {
      ...(this.#names.size === 0 ? {} : { ExpressionAttributeNames: names }),
      ...(this.#values.length === 0 ? {} : { ExpressionAttributeValues: values }),
    };
  }

  /** A condition that holds when every clause does; undefined for none. */
  condition(clauses: readonly Clause[]): string | undefined {
    if (clauses.length === 0) return undefined;
    return clauses.map((clause) => this.#clause(clause)).join(' AND ');
  }

  /** An update expression with all kinds of change. */
  update(change: Change): string {
    const set = Object.entries(change.set ?? {}).map(
      ([name, value]) => `${this.name(name)} = ${this.value(value)}`,
    );
    for (const [name, more] of Object.entries(change.append ?? {})) {
      const list = this.name(name);
      const before = `if_not_exists(${list}, ${this.value([])})`;
      set.push(`${list} = list_append(${before}, ${this.value(more)})`);
    }
    const remove = (change.remove ?? []).map((name) => this.name(name));
    const add = Object.entries(change.add ?? {}).map(
      ([name, by]) => `${this.name(name)} ${this.value(by)}`,
    );
    const sections = [section('SET', set), section('REMOVE', remove), section('ADD', add)];
    return sections.filter((text) => text !== '').join(' ');
  }

  /** The key condition of a query. */
  range(pk: string, between: readonly [string, string] | undefined): string {
    const partition = `${this.name('pk')} = ${this.value(pk)}`;
    if (between === undefined) return partition;
    const [from, to] = between;
    return `${partition} AND ${this.name('sk')} BETWEEN ${this.value(from)} AND ${this.value(to)}`;
  }

  name(attr: string): string {
    const known = this.#names.get(attr);
    if (known !== undefined) return known;
    const alias = `#n${this.#names.size}`;
    this.#names.set(attr, alias);
    return alias;
  }

  value(value: Attr): string {
    this.#values.push(toAttribute(value));
    return `:v${this.#values.length - 1}`;
  }

  #clause(clause: Clause): string {
    if (!('attr' in clause)) {
      const pk = this.name('pk');
      return clause.is === 'item' ? `attribute_exists(${pk})` : `attribute_not_exists(${pk})`;
    }
    const name = this.name(clause.attr);
    if (clause.is === 'absent') return `attribute_not_exists(${name})`;
    if (clause.is === 'present') return `attribute_exists(${name})`;
    if ('value' in clause) return `${name} ${comparators[clause.is]} ${this.value(clause.value)}`;
    throw new TypeError('a comparison without a value');
  }
}

function section(word: string, parts: readonly string[]): string {
  return parts.length === 0 ? '' : `${word} ${parts.join(', ')}`;
}
