/**
 * Escapes control, format and all other characters of Unicode's category C: names from a store must not control a
 * terminal.
 */
export const printable = (text: string): string => text.replaceAll(/\p{C}/gu, (char) => `\\u{${(char.codePointAt(0) ?? 0).toString(16)}}`);

/** A number as people read it, such as `2,000`. */
export const number = (value: number): string => value.toLocaleString('en');

/** A number and what it counts, such as `1 file` or `2,000 files`. */
export const count = (value: number, what: string): string => `${number(value)} ${what}${value === 1 ? '' : 's'}`;
