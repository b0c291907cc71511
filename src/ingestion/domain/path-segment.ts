/**
 * UTF-8, percent-encoded (upper-case hex) except for `A-Z a-z 0-9 - _ .`. Encodes `.` and `..` as `%2E` and `%2E%2E`.
 */
export function encodePathSegment(text: string): string {
  if (text === '.' || text === '..') return text.replaceAll('.', '%2E');
  return encodeURIComponent(text).replace(/[!'()*~]/g, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`);
}
