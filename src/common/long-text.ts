import { Turns } from './turns.js';

/** A text over this length, in UTF-16 units, takes turns. */
const LONG_LENGTH = 64 * 1024;
const PIECE_LENGTH = 16 * 1024;

/** Whether work on each character of the text could keep the event loop for long. */
export const isLongText = (text: string): boolean => text.length > LONG_LENGTH;

/** Gives the pieces of a long text one after the other to some work, in turns. No piece ends within a character. */
export async function forEachPiece(text: string, work: (piece: string) => void): Promise<void> {
  const turns = new Turns();
  for (let at = 0, end; at < text.length; at = end) {
    if (turns.isOver) await turns.next();
    end = Math.min(at + PIECE_LENGTH, text.length);
    if (end < text.length && isLowSurrogate(text.charCodeAt(end)) && isHighSurrogate(text.charCodeAt(end - 1))) end -= 1;
    work(text.slice(at, end));
  }
}

/** As `isUnicode`, in turns where the text is long. */
export async function isUnicodeText(text: string): Promise<boolean> {
  if (!isLongText(text)) return text.isWellFormed();
  let isUnicode = true;
  await forEachPiece(text, (piece) => {
    isUnicode &&= piece.isWellFormed();
  });
  return isUnicode;
}

const isHighSurrogate = (unit: number): boolean => unit >= 0xd800 && unit < 0xdc00;
const isLowSurrogate = (unit: number): boolean => unit >= 0xdc00 && unit < 0xe000;
