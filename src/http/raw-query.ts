import type { IncomingMessage } from 'node:http';

/**
 * The values of one query parameter, decoded as forms are (`+` is a blank), in order. Undefined where a value is not
 * percent-encoded UTF-8, or where the parameter also comes in the form `name[...]`: nobody can tell what was meant.
 */
export function queryValues({ url = '' }: Pick<IncomingMessage, 'url'>, name: string): string[] | undefined {
  const start = url.indexOf('?');
  const values: string[] = [];
  for (const pair of start < 0 ? [] : url.slice(start + 1).split('&')) {
    const [rawName = '', ...rest] = pair.split('=');
    const found = decode(rawName);
    if (found?.startsWith(`${name}[`)) return undefined;
    if (found !== name) continue;
    const value = decode(rest.join('='));
    if (value === undefined) return undefined;
    values.push(value);
  }
  return values;
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
