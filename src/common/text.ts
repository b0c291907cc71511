const CONTROL = '\\u0000-\\u001f\\u007f-\\u009f';
const HAS_CONTROL = new RegExp(`[${CONTROL}]`);

/** Whether the text contains U+0000-001F or U+007F-009F. */
export const hasControlCharacter = (text: string): boolean => HAS_CONTROL.test(text);

/**
 * Removes spaces and tabs at both ends (OWS, RFC 9110, section 5.6.3). Unlike a regular expression, this function
 * takes linear time.
 */
export function trimBlanks(text: string): string {
  const isBlankAt = (at: number): boolean => text[at] === ' ' || text[at] === '\t';
  let [begin, end] = [0, text.length];
  while (begin < end && isBlankAt(begin)) begin += 1;
  while (end > begin && isBlankAt(end - 1)) end -= 1;
  return text.slice(begin, end);
}

/**
 * Returns a check for names as people write them: Unicode text of 1 to `most` code points, neither blank (only
 * White_Space) nor with control characters.
 */
export function isNameUpTo(most: number): (text: unknown) => text is string {
  const pattern = new RegExp(`^(?!\\p{White_Space}*$)[^${CONTROL}\\p{Surrogate}]{1,${most}}$`, 'u');
  return (text): text is string => typeof text === 'string' && pattern.test(text);
}

/**
 * Percent-encodes the UTF-8 bytes of a text in upper-case hex, except for `A-Z a-z 0-9 - _ .`. Encodes the whole texts
 * `.` and `..` as `%2E` and `%2E%2E`. Throws a URIError for a lone surrogate.
 */
export function encodePathSegment(text: string): string {
  if (text === '.' || text === '..') return text.replaceAll('.', '%2E');
  return encodeURIComponent(text).replace(/[!'()*~]/g, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`);
}
