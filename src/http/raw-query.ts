import type { IncomingMessage } from 'node:http';

/** The query string of a request, as it was sent. */
export class RawQuery {
  /** The decoded name and value of each parameter; undefined for text that can't be decoded. */
  private readonly pairs: readonly (readonly [name: string | undefined, value: string | undefined])[];

  constructor({ url = '' }: Pick<IncomingMessage, 'url'>) {
    const start = url.indexOf('?');
    this.pairs = start < 0 ? [] : url.slice(start + 1).split('&').map(decodePair);
  }

  /**
   * The values of one parameter in order, decoded like form fields (`+` is a space). Undefined when a value isn't
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

function decodePair(pair: string): [string | undefined, string | undefined] {
  const equals = pair.indexOf('=');
  return equals < 0 ? [decode(pair), ''] : [decode(pair.slice(0, equals)), decode(pair.slice(equals + 1))];
}

function decode(text: string): string | undefined {
  // Fast path: most texts need no decoding.
  if (!/[%+\x80-\xff]/.test(text)) return text;
  try {
    // Bytes that the client didn't encode arrive as one character each.
    const encoded = text.replace(/[\x80-\xff]/g, (byte) => `%${byte.charCodeAt(0).toString(16)}`);
    return decodeURIComponent(encoded.replaceAll('+', ' '));
  } catch {
    return undefined;
  }
}
