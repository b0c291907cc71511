import type { IncomingMessage } from 'node:http';

/** A text without any of these is what it is. */
const MAY_BE_ENCODED = /[%+\x80-\xff]/;

/** A query as it was sent. */
export class RawQuery {
  /** Name and value of each parameter, decoded; undefined for what can't be. */
  private readonly pairs: readonly (readonly [name: string | undefined, value: string | undefined])[];

  constructor({ url = '' }: Pick<IncomingMessage, 'url'>) {
    const start = url.indexOf('?');
    const query = start < 0 ? '' : url.slice(start + 1);
    this.pairs = query.split('&').map(MAY_BE_ENCODED.test(query) ? decodedPair : plainPair);
  }

  /** The value of a parameter that is given once; undefined otherwise, and where `values` is. */
  single(name: string): string | undefined {
    const values = this.values(name);
    return values?.length === 1 ? values[0] : undefined;
  }

  /**
   * The values of one parameter, decoded as forms are (`+` is a blank), in order. Undefined where a value is not
   * percent-encoded UTF-8, or where the parameter also comes in the form `name[...]`: nobody can tell what was meant.
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
    // Bytes that a client didn't encode reach us one a character.
    const encoded = text.replace(/[\x80-\xff]/g, (byte) => `%${byte.charCodeAt(0).toString(16)}`);
    return decodeURIComponent(encoded.replaceAll('+', ' '));
  } catch {
    return undefined;
  }
}
