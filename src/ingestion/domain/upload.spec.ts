import { describe, expect, it } from 'vitest';
import { isCustomerId, isFilename, isManufacturer } from './upload.js';

const rules = { customerId: isCustomerId, filename: isFilename, manufacturer: isManufacturer };

/** Each case: a name, a value, and whether the value is valid as a customer id, as a filename and as a manufacturer. */
const CASES: [string, unknown, boolean, boolean, boolean][] = [
  ['plain text', 'acme-1', true, true, true],
  ['one character', 'x', true, true, true],
  ['blanks around text', ' x ', true, true, true],
  ['a zero-width space, which is not White_Space', '\u200b', true, true, true],
  ['40 two-byte letters: 240 bytes encoded', 'ß'.repeat(40), true, true, true],
  ['41 two-byte letters: 246 bytes encoded', 'ß'.repeat(41), false, true, true],
  ['80 slashes: 240 bytes encoded', '/'.repeat(80), true, false, true],
  ['81 slashes: 243 bytes encoded', '/'.repeat(81), false, false, true],
  ['128 letters', 'x'.repeat(128), true, true, true],
  ['129 letters', 'x'.repeat(129), false, true, false],
  ['20 emoji: 240 bytes encoded', '🙂'.repeat(20), true, true, true],
  ['128 emoji: 128 code points', '🙂'.repeat(128), false, true, true],
  ['129 emoji', '🙂'.repeat(129), false, true, false],
  ['255 letters', 'x'.repeat(255), false, true, false],
  ['255 emoji', '🙂'.repeat(255), false, true, false],
  ['256 letters', 'x'.repeat(256), false, false, false],
  ['a slash', 'a/b', true, false, true],
  ['a backslash', 'a\\b', true, false, true],
  ['one dot', '.', true, false, true],
  ['two dots', '..', true, false, true],
  ['three dots', '...', true, true, true],
  ['an empty text', '', false, false, false],
  ['a blank', ' ', false, false, false],
  ['other kinds of blanks', '\u00a0\u2003\u3000', false, false, false],
  ['U+0000', 'a\u0000b', false, false, false],
  ['U+001F', 'a\u001fb', false, false, false],
  ['a newline', 'a\n', false, false, false],
  ['U+007F', 'a\u007fb', false, false, false],
  ['U+009F', 'a\u009fb', false, false, false],
  ['U+00A0 inside text', 'a\u00a0b', true, true, true],
  ['a lone surrogate', 'a\ud800b', false, false, false],
  ['undefined', undefined, false, false, false],
  ['null', null, false, false, false],
  ['a number', 1, false, false, false],
  ['an array', ['x'], false, false, false],
  ['an object', { x: 'x' }, false, false, false],
];

describe.each(CASES)('%s', (_, value, asCustomerId, asFilename, asManufacturer) => {
  it.each([
    ['customerId', asCustomerId],
    ['filename', asFilename],
    ['manufacturer', asManufacturer],
  ] as const)('is valid as %s: %s', (parameter, allowed) => {
    expect(rules[parameter](value)).toBe(allowed);
  });
});
