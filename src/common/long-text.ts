import { Turns } from './turns.js';

/**
 * The longest text that is processed in one go, in UTF-16 units. Longer texts are processed in turns, because
 * per-character work on them could block the event loop for long.
 */
export const LONG_TEXT = 64 * 1024;
const PIECE_LENGTH = 16 * 1024;

/**
 * Calls `work` with each piece of a long text in order, taking turns with other jobs. A piece never ends within a
 * character.
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

/** Whether a text is well-formed Unicode, without lone surrogates. Checks a long text in turns. */
export async function isUnicodeText(text: string): Promise<boolean> {
  if (text.length <= LONG_TEXT) return text.isWellFormed();
  let isUnicode = true;
  await forEachPiece(text, (piece) => {
    isUnicode &&= piece.isWellFormed();
  });
  return isUnicode;
}

const isHighSurrogate = (unit: number): boolean => unit >= 0xd800 && unit < 0xdc00;
const isLowSurrogate = (unit: number): boolean => unit >= 0xdc00 && unit < 0xe000;
