import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { nameUpTo } from './text.js';

const isName = (text: string, most: number) => nameUpTo(most).test(text);

describe('texts', () => {
  it('have their length as names counted in code points', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme', minLength: 1 }), (text) => {
        const length = Array.from(text).length + 2;
        expect([isName(`<${text}>`, length), isName(`<${text}>`, length - 1)]).toEqual([!/\p{Cc}/u.test(text), false]);
      }),
    );
  });

  it.each(Array.from('\u00a0\u1680\u2000\u200a\u2028\u2029\u202f\u205f\u3000 ').concat(''))('%j is blank', (text) => {
    expect([isName(text, 9), isName(`${text}a${text}`, 9)]).toEqual([false, true]);
  });

  // U+200B, U+FEFF, U+180E and U+2060 aren't White_Space in Unicode, although some libraries trim them.
  it.each(['\u200b', '\ufeff', '\u180e', '\u2060', 'a', ' a '])('%j is not blank', (text) => {
    expect(isName(text, 9)).toBe(true);
  });

  it('have U+0000-001F and U+007F-009F as control characters, and no others', () => {
    for (let code = 0; code <= 0x300; code++) {
      const text = `a${String.fromCharCode(code)}`;
      const isControl = code < 0x20 || (code > 0x7e && code < 0xa0);
      expect([code, isName(text, 9)]).toEqual([code, !isControl]);
    }
  });

  it.each([['\ud800', false], ['a\udc00', false], ['\udc00\ud800', false], ['😀', true]])('%j is valid Unicode: %s', (text, is) => {
    expect(isName(text, 9)).toBe(is);
  });

  it.each([
    ['a', 1, true],
    ['ab', 1, false],
    ['😀', 1, true],
    ['😀😀', 1, false],
    [' ', 9, false],
    ['a\u0000', 9, false],
    ['\ud800', 9, false],
  ])('%j is a name of at most %i characters: %s', (text, most, is) => {
    expect(isName(text, most)).toBe(is);
  });
});
