import { unexpected } from './json-syntax-error.js';

const LETTER_U = 0x75;
const ESCAPES: ReadonlySet<number> = new Set(Buffer.from('"\\/bfnrt'));

const isHex = (byte: number): boolean =>
  (byte >= 0x30 && byte <= 0x39) || (byte >= 0x61 && byte <= 0x66) || (byte >= 0x41 && byte <= 0x46);

/**
 * The position in `bytes`, a JSON text, after the escape whose backslash is at `at`; -1 if `bytes` ends within the
 * escape.
 *
 * @throws SyntaxError when JSON has no escape that begins like this one.
 */
export function endOfEscape(bytes: Buffer, at: number): number {
  if (at + 1 >= bytes.length) return -1;
  const byte = bytes[at + 1] ?? 0;
  if (byte !== LETTER_U) {
    if (!ESCAPES.has(byte)) throw unexpected();
    return at + 2;
  }
  for (let digit = at + 2; digit < at + 6; digit++) {
    if (digit >= bytes.length) return -1;
    if (!isHex(bytes[digit] ?? 0)) throw unexpected();
  }
  return at + 6;
}
