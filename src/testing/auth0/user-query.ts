import { invalidQuery } from './management-error.js';
import type { UserRecord } from './user-record.js';

export type SearchGranularity = 'millisecond' | 'second' | 'day';

/** A user search. `from` (inclusive) and `until` (exclusive) limit the creation time, in milliseconds since 1970. */
export interface UserQuery {
  readonly from: number;
  readonly until: number;
  readonly rest?: (user: UserRecord) => boolean;
}

export const ALL_USERS: UserQuery = { from: -Infinity, until: Infinity };

const UNITS: Record<SearchGranularity, number> = { millisecond: 1, second: 1000, day: 86_400_000 };
const FIELDS: Record<string, (user: UserRecord) => string> = {
  user_id: ({ userId }) => userId,
  email: ({ email }) => email.toLowerCase(),
  name: ({ name }) => name.toLowerCase(),
  nickname: ({ email }) => (email.split('@')[0] ?? '').toLowerCase(),
  'identities.connection': ({ connection }) => connection.toLowerCase(),
  'identities.provider': ({ userId }) => (userId.split('|')[0] ?? '').toLowerCase(),
};

/**
 * Parses a user search in a part of Auth0's query syntax: `field:value`, `field:"phrase"`, `field:start*`, ranges in
 * `[]` (inclusive) or `{}` (exclusive), `AND`, `OR`, `NOT` and parentheses. The value of `created_at` is a range, a
 * point in time or a day.
 *
 * @throws ManagementError 400 `invalid_query_string` for any other query, or an unsupported field.
 */
export function parseUserQuery(q: string, granularity: SearchGranularity): UserQuery {
  return new Parser(q, UNITS[granularity]).parse();
}

class Parser {
  private at = 0;

  constructor(
    private readonly q: string,
    private readonly unit: number,
  ) {}

  parse(): UserQuery {
    const query = this.any();
    this.take(/\s*/y);
    if (this.at < this.q.length) throw this.broken();
    return query;
  }

  private any(): UserQuery {
    const parts = [this.all()];
    while (this.take(/\s+OR\s+/y)) parts.push(this.all());
    const [only] = parts;
    if (parts.length === 1 && only) return only;
    return { ...ALL_USERS, rest: (user) => parts.some((part) => matches(part, user)) };
  }

  private all(): UserQuery {
    let query = this.one();
    while (this.take(/\s+AND\s+/y)) query = both(query, this.one());
    return query;
  }

  private one(): UserQuery {
    this.take(/\s*/y);
    if (this.take(/NOT\s+/y)) {
      const part = this.one();
      return { ...ALL_USERS, rest: (user) => !matches(part, user) };
    }
    if (!this.take(/\(/y)) return this.clause();
    const group = this.any();
    if (!this.take(/\s*\)/y)) throw this.broken();
    return group;
  }

  private clause(): UserQuery {
    const field = this.take(/([a-z_.]+):/y)?.[1] ?? '';
    const range = this.take(/([[{])\s*("[^"]+"|[^\s"]+)\s+TO\s+("[^"]+"|[^\s"\]}]+)\s*([\]}])/y);
    if (range) {
      const [, open, least = '', most = '', close] = range;
      return this.range(field, { from: unquoted(least), isFrom: open === '[', to: unquoted(most), isTo: close === ']' });
    }
    const value = this.take(/"((?:[^"\\]|\\.)*)"|((?:[^\s"()[\]{}:\\]|\\.)+)/y);
    if (!value) throw this.broken();
    const [, quoted, bare = ''] = value;
    const isStart = quoted === undefined && bare.endsWith('*') && !bare.endsWith('\\*');
    const wanted = (quoted ?? (isStart ? bare.slice(0, -1) : bare)).replaceAll(/\\(.)/gs, '$1');
    if (field === 'created_at') return this.range(field, { from: wanted, isFrom: true, to: wanted, isTo: true });
    const read = this.reader(field);
    const text = field === 'user_id' ? wanted : wanted.toLowerCase();
    return { ...ALL_USERS, rest: (user) => (isStart ? read(user).startsWith(text) : read(user) === text) };
  }

  private range(field: string, { from, isFrom, to, isTo }: { from: string; isFrom: boolean; to: string; isTo: boolean }): UserQuery {
    if (field === 'created_at') {
      // A bound of `created_at` (not `*`) is itself a span: a day, or one unit of the search's precision. With `[` or
      // `]`, the range includes this span; with `{` or `}`, it doesn't.
      return {
        from: from === '*' ? -Infinity : this.time(from)[isFrom ? 0 : 1],
        until: to === '*' ? Infinity : this.time(to)[isTo ? 1 : 0],
      };
    }
    const read = this.reader(field);
    const isAbove = (text: string) => from === '*' || text > from || (isFrom && text === from);
    const isBelow = (text: string) => to === '*' || text < to || (isTo && text === to);
    return { ...ALL_USERS, rest: (user) => isAbove(read(user)) && isBelow(read(user)) };
  }

  private time(value: string): [from: number, until: number] {
    const isDay = /^\d{4}-\d\d-\d\d$/.test(value);
    const parsed = isDay || /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,3})?Z$/.test(value) ? Date.parse(value) : Number.NaN;
    if (Number.isNaN(parsed)) throw this.broken();
    const unit = isDay ? UNITS.day : this.unit;
    const from = Math.floor(parsed / unit) * unit;
    return [from, from + unit];
  }

  private reader(field: string): (user: UserRecord) => string {
    const read = Object.hasOwn(FIELDS, field) ? FIELDS[field] : undefined;
    if (!read) throw this.broken();
    return read;
  }

  private take(pattern: RegExp): RegExpExecArray | null {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.q);
    if (found) this.at = pattern.lastIndex;
    return found;
  }

  private broken(): Error {
    return invalidQuery(`The query is invalid at character ${this.at} on property q`);
  }
}

const unquoted = (value: string): string => value.replaceAll('"', '');

const matches = ({ from, until, rest }: UserQuery, user: UserRecord): boolean =>
  user.createdAt >= from && user.createdAt < until && (rest?.(user) ?? true);

function both(one: UserQuery, other: UserQuery): UserQuery {
  const rests = [one.rest, other.rest].filter((rest) => rest !== undefined);
  return {
    from: Math.max(one.from, other.from),
    until: Math.min(one.until, other.until),
    ...(rests.length > 0 && { rest: (user) => rests.every((rest) => rest(user)) }),
  };
}
