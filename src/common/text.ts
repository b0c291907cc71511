const BLANK = /^\p{White_Space}*$/u;
// eslint-disable-next-line no-control-regex
const CONTROL = /[\u0000-\u001f\u007f-\u009f]/;

/** Whether the text contains only White_Space (Unicode). True for the empty text. */
export const isBlank = (text: string): boolean => BLANK.test(text);

/** Whether the text contains U+0000-001F or U+007F-009F. */
export const hasControlCharacter = (text: string): boolean => CONTROL.test(text);

/** Whether the text is well-formed Unicode, without lone surrogates. */
export const isUnicode = (text: string): boolean => text.isWellFormed();

/**
 * Removes spaces and tabs at both ends (OWS, RFC 9110, section 5.6.3). Unlike a regular expression, it takes linear
 * time.
 */
export function trimBlanks(text: string): string {
  const isBlankAt = (at: number): boolean => text[at] === ' ' || text[at] === '\t';
  let [begin, end] = [0, text.length];
  while (begin < end && isBlankAt(begin)) begin += 1;
  while (end > begin && isBlankAt(end - 1)) end -= 1;
  return text.slice(begin, end);
}

/** The length in Unicode code points. */
export function codePoints(text: string): number {
  let count = 0;
  for (let index = 0; index < text.length; count++) index += (text.codePointAt(index) ?? 0) > 0xffff ? 2 : 1;
  return count;
}

/** Whether this is a name as people write it: Unicode, not blank, no control characters, 1 to `most` code points. */
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
