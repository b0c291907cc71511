import { isUtf8 } from 'node:buffer';
import { Turns } from './turns.js';

const BLANKS = ' \t';

/**
 * Removes the spaces and tabs at both ends of a text (OWS, RFC 9110, section 5.6.3). Takes linear time, which a regular
 * expression wouldn't.
 */
export function trimBlanks(text: string): string {
  let [begin, end] = [0, text.length];
  while (begin < end && BLANKS.includes(text.charAt(begin))) begin += 1;
  while (end > begin && BLANKS.includes(text.charAt(end - 1))) end -= 1;
  return text.slice(begin, end);
}

/** The text with each run of white space replaced by one space. */
export const oneLine = (text: string): string => text.replaceAll(/\s+/g, ' ');

/**
 * The pattern of names as people write them: Unicode text of 1 to `most` code points, neither blank (only White_Space)
 * nor with control characters.
 */
export const nameUpTo = (most: number): RegExp => new RegExp(`^(?!\\p{White_Space}*$)[^\\p{Control}\\p{Surrogate}]{1,${most}}$`, 'u');

/** In UTF-16 units. A longer text is processed in turns with other jobs: it could block the event loop for long. */
export const LONG_TEXT = 64 * 1024;
const PIECE_LENGTH = 16 * 1024;

/**
 * Calls `work` with each piece of a long text in order, taking turns with other jobs. No piece ends between the two
 * surrogates of a character.
 */
export async function forEachPiece(text: string, work: (piece: string) => void): Promise<void> {
  const turns = new Turns();
  for (let at = 0, end; at < text.length; at = end) {
    if (turns.isOver) await turns.next();
    end = Math.min(at + PIECE_LENGTH, text.length);
    if (end < text.length && isLowSurrogate(text.charCodeAt(end)) && isHighSurrogate(text.charCodeAt(end - 1))) end -= 1;
    work(text.slice(at, end));
  }
}

/** The value of a text or of bytes as JSON; undefined if they aren't JSON, or if the bytes aren't UTF-8. */
export function parseJson(json: string | Buffer): unknown {
  if (typeof json !== 'string' && !isUtf8(json)) return undefined;
  try {
    return JSON.parse(json.toString()) as unknown;
  } catch {
    return undefined;
  }
}

/** Whether a value of JSON is an object, and not a list. */
export const isJsonObject = (value: unknown): value is Readonly<Partial<Record<string, unknown>>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** The text as JSON, without the quotes around it. */
export const escapedJson = (text: string): string => JSON.stringify(text).slice(1, -1);

const [BEGIN, COMMA, END] = ['[', ',', ']'].map((text) => Buffer.from(text)) as [Buffer, Buffer, Buffer];

/** The bytes of a JSON array of items that are encoded as JSON already. */
export const jsonArray = (items: readonly Buffer[]): Buffer =>
  Buffer.concat([BEGIN, ...items.flatMap((item, index) => (index === 0 ? [item] : [COMMA, item])), END]);

/** The most bytes that a UTF-16 unit of a text takes in JSON, for example as `\u0000`. */
const MAX_BYTES_PER_UNIT = 6;

/**
 * Inserts a long text into JSON, in turns with other jobs, and encodes the result in UTF-8.
 *
 * @param json JSON without spaces between its tokens, in which `member` has an empty text.
 */
export async function encodeWithText(json: string, member: string, text: string): Promise<Buffer> {
  // The first match is the member: a text can't contain `"<member>":""`, because JSON escapes its quotes.
  const empty = `"${member}":""`;
  const textAt = json.indexOf(empty) + empty.length - 1;
  // Room for the longest possible encoding of the text. Unused pages take no memory.
  const bytes = Buffer.allocUnsafeSlow(Buffer.byteLength(json) + text.length * MAX_BYTES_PER_UNIT);
  let length = bytes.write(json.slice(0, textAt));
  await forEachPiece(text, (piece) => {
    length += bytes.write(escapedJson(piece), length);
  });
  length += bytes.write(json.slice(textAt), length);
  return bytes.subarray(0, length);
}

/** Whether a text is well-formed Unicode. Checks a long text in turns with other jobs. */
export const isUnicodeText = (text: string): boolean | Promise<boolean> => (text.length <= LONG_TEXT ? text.isWellFormed() : isLongUnicodeText(text));

async function isLongUnicodeText(text: string): Promise<boolean> {
  let isUnicode = true;
  await forEachPiece(text, (piece) => {
    isUnicode &&= piece.isWellFormed();
  });
  return isUnicode;
}

const isHighSurrogate = (unit: number): boolean => unit >= 0xd800 && unit < 0xdc00;
const isLowSurrogate = (unit: number): boolean => unit >= 0xdc00 && unit < 0xe000;
