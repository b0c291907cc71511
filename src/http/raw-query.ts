import type { IncomingMessage } from 'node:http';

/** A query as it was sent. */
export class RawQuery {
  /** Name and value of each parameter, decoded; undefined for what can't be. */
  private readonly pairs: readonly (readonly [name: string | undefined, value: string | undefined])[];

  constructor({ url = '' }: Pick<IncomingMessage, 'url'>) {
    const start = url.indexOf('?');
    this.pairs = start < 0 ? [] : url.slice(start + 1).split('&').map(decodePair);
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

function decodePair(pair: string): [string | undefined, string | undefined] {
  const equals = pair.indexOf('=');
  return equals < 0 ? [decode(pair), ''] : [decode(pair.slice(0, equals)), decode(pair.slice(equals + 1))];
}

function decode(text: string): string | undefined {
  // Most texts are what they are.
  if (!/[%+\x80-\xff]/.test(text)) return text;
  try {
    // Bytes that a client didn't encode reach us one a character.
    const encoded = text.replace(/[\x80-\xff]/g, (byte) => `%${byte.charCodeAt(0).toString(16)}`);
    return decodeURIComponent(encoded.replaceAll('+', ' '));
  } catch {
    return undefined;
  }
}
