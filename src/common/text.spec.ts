import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { codePoints, hasControlCharacter, isBlank, isName, isUnicode } from './text.js';

describe('texts', () => {
  it('counts code points as iteration does', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        expect(codePoints(text)).toBe(Array.from(text).length);
      }),
    );
  });

  it.each(Array.from('\t\n\v\f\r \u0085\u00a0\u1680\u2000\u200a\u2028\u2029\u202f\u205f\u3000').concat(''))('%j is blank', (text) => {
    expect(isBlank(text)).toBe(true);
  });

  // White_Space doesn't have these, although some trim them.
  it.each(['\u200b', '\ufeff', '\u180e', '\u2060', 'a', ' a '])('%j is not blank', (text) => {
    expect(isBlank(text)).toBe(false);
  });

  it('knows the control characters U+0000-001F and U+007F-009F and no others', () => {
    for (let code = 0; code <= 0x300; code++) {
      expect([code, hasControlCharacter(`a${String.fromCharCode(code)}`)]).toEqual([code, code < 0x20 || (code > 0x7e && code < 0xa0)]);
    }
  });

  it.each([['\ud800', false], ['a\udc00', false], ['\udc00\ud800', false], ['😀', true], ['', true]])('%j is Unicode: %s', (text, is) => {
    expect(isUnicode(text)).toBe(is);
  });

  it.each([
    ['a', 1, true],
    ['ab', 1, false],
    ['😀', 1, true],
    ['😀😀', 1, false],
    [' ', 9, false],
    ['a\u0000', 9, false],
    ['\ud800', 9, false],
    [1, 9, false],
    [null, 9, false],
  ])('%j is a name of at most %i: %s', (text, most, is) => {
    expect(isName(text, most)).toBe(is);
  });
});
