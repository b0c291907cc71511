const BLANK = /^\p{White_Space}*$/u;
// eslint-disable-next-line no-control-regex
const CONTROL = /[\u0000-\u001f\u007f-\u009f]/;
const LONE_SURROGATE = /\p{Surrogate}/u;

/** Whether nothing but White_Space (Unicode) is in it; true for the empty text. */
export const isBlank = (text: string): boolean => BLANK.test(text);

/** Whether it holds U+0000-001F or U+007F-009F. */
export const hasControlCharacter = (text: string): boolean => CONTROL.test(text);

/** Whether it is Unicode text, that is, without lone surrogates. */
export const isUnicode = (text: string): boolean => !LONE_SURROGATE.test(text);

/** Length in Unicode code points. */
export function codePoints(text: string): number {
  let count = 0;
  for (let index = 0; index < text.length; count++) index += (text.codePointAt(index) ?? 0) > 0xffff ? 2 : 1;
  return count;
}

/** A name as people write it: Unicode, not blank, no control character, 1 to `most` code points. */
export function isName(text: unknown, most: number): text is string {
  return (
    typeof text === 'string' &&
    text.length <= 2 * most &&
    !isBlank(text) &&
    !hasControlCharacter(text) &&
    isUnicode(text) &&
    codePoints(text) <= most
  );
}
