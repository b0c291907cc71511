import type { IncomingMessage } from 'node:http';
import { ValidateBy, validateSync } from 'class-validator';
import { ServiceError } from '../common/service-error.js';

/** Text without any of these characters needs no decoding. */
const MAY_BE_ENCODED = /[%+\x80-\xff]/;

/** The query string of a request, as it was sent. */
export class RawQuery {
  /** The decoded name and value of each parameter. A name or value that can't be decoded is undefined. */
  private readonly pairs: readonly (readonly [name: string | undefined, value: string | undefined])[];

  constructor({ url = '' }: Pick<IncomingMessage, 'url'>) {
    const start = url.indexOf('?');
    const query = start < 0 ? '' : url.slice(start + 1);
    this.pairs = query.split('&').map(MAY_BE_ENCODED.test(query) ? decodedPair : plainPair);
  }

  /**
   * The value of a parameter that is given exactly once. Otherwise undefined, and also if `values` returns undefined.
   */
  single(name: string): string | undefined {
    const values = this.values(name);
    return values?.length === 1 ? values[0] : undefined;
  }

  /**
   * The values of a parameter in order, decoded like form fields (`+` is a space). Undefined when a value isn't
   * percent-encoded UTF-8, or when the parameter also occurs as `name[...]`, because then its meaning is ambiguous.
   */
  values(name: string): string[] | undefined {
    const values: string[] = [];
    for (const [found, value] of this.pairs) {
      if (found?.startsWith(`${name}[`)) return undefined;
      if (found !== name) continue;
      if (value === undefined) return undefined;
      values.push(value);
    }
    return values;
  }
}

/** A rule for a query parameter, by a predicate of the domain. */
export const Satisfies = (name: string, validate: (value: unknown) => boolean): PropertyDecorator =>
  ValidateBy({ name, validator: { validate } });

/**
 * The query itself, if its parameters follow the rules of its class.
 *
 * @throws ServiceError `invalid-query-parameter`, which names the parameters that don't.
 */
export function validQuery<Query extends object>(query: Query): Query {
  const defects = validateSync(query);
  if (defects.length > 0) {
    throw new ServiceError('invalid-query-parameter', `invalid, missing or repeated: ${defects.map(({ property }) => property).join(', ')}`);
  }
  return query;
}

function plainPair(pair: string): [string, string] {
  const equals = pair.indexOf('=');
  return equals < 0 ? [pair, ''] : [pair.slice(0, equals), pair.slice(equals + 1)];
}

function decodedPair(pair: string): [string | undefined, string | undefined] {
  const [name, value] = plainPair(pair);
  return [decode(name), decode(value)];
}

function decode(text: string): string | undefined {
  try {
    // Bytes that the client didn't encode arrive as one character each.
    const encoded = text.replace(/[\x80-\xff]/g, (byte) => `%${byte.charCodeAt(0).toString(16)}`);
    return decodeURIComponent(encoded.replaceAll('+', ' '));
  } catch {
    return undefined;
  }
}
