import { joined } from '../../../../../common/joined.js';
import { Turns } from '../../../../../common/turns.js';
import { containsText } from '../../../../application/contains-text.js';
import { decodeIndexLine } from '../../../../application/line-decoding.js';
import { NEWLINE, rawLines } from '../../../../application/raw-lines.js';
import { hasValidTime, type Upload } from '../../../../domain/upload.js';
import type { Bucket, ByteRange } from '../bucket.js';
import { type FoundText, LineScan } from './line-scan.js';

/** A segment is missing, usually because compaction has moved its lines to another one since it was listed. */
export class SegmentGoneError extends Error {
  constructor(key: string) {
    super(`${key} is gone.`);
    this.name = new.target.name;
  }
}

/** A line is longer than its reader wants to hold in memory. */
export class LineTooLongError extends Error {
  /** @param begin the offset of the line in its segment, in bytes. */
  constructor(readonly begin: number) {
    super('A line is too long to be read in one piece.');
    this.name = new.target.name;
  }
}

export interface Line {
  readonly upload: Upload;
  readonly begin: number;
  /** The offset in the segment after the line and its newline, in bytes. */
  readonly end: number;
}

/**
 * The complete and valid index lines in `bytes`, which must begin where a line begins.
 *
 * @param offset the offset of `bytes` in the segment.
 * @param isSkipped whether to leave out the line that begins at a position in `bytes`; see `rawLines`.
 */
export async function* linesIn(bytes: Buffer, offset = 0, isSkipped?: (begin: number) => boolean): AsyncGenerator<Line> {
  const turns = new Turns();
  for (const { begin, end, bytes: line } of rawLines(bytes, offset, isSkipped)) {
    if (turns.isOver) await turns.next();
    const upload = await decodeIndexLine(line);
    if (upload && hasValidTime(upload)) yield { upload, begin, end };
  }
}

/**
 * Reads the lines of a segment that begin in a range of bytes. The last one may be incomplete.
 *
 * @returns the bytes, and their offset in the segment; undefined if no line begins in the range.
 * @throws SegmentGoneError if the segment is missing.
 */
export async function readPart(bucket: Bucket, key: string, range: ByteRange): Promise<{ bytes: Buffer; offset: number } | undefined> {
  // The byte before the range is read too: if it is a newline, a line begins at the first byte of the range.
  const first = Math.max(0, range.first - 1);
  const bytes = await readRange(bucket, key, { first, last: range.last });
  const begin = range.first === 0 ? 0 : bytes.indexOf(NEWLINE) + 1;
  return (begin === 0 && range.first > 0) || begin === bytes.length ? undefined : { bytes: bytes.subarray(begin), offset: first + begin };
}

async function readRange(bucket: Bucket, key: string, range: ByteRange): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of await opened(bucket, key, range)) chunks.push(chunk);
  return joined(chunks);
}

async function opened(bucket: Bucket, key: string, range?: ByteRange): Promise<AsyncIterable<Uint8Array>> {
  const pieces = await bucket.open(key, range);
  if (!pieces) throw new SegmentGoneError(key);
  return pieces;
}

/**
 * Finds the lines that contain a text, in a segment of any length. Lines of more than 64 KiB come last, without their
 * bytes.
 *
 * @param range the bytes to search, which must begin and end with whole lines; by default the whole segment.
 * @throws SegmentGoneError if the segment is missing.
 */
export async function* linesWith(bucket: Bucket, key: string, text: string, range?: ByteRange): AsyncGenerator<FoundText> {
  const scan = new LineScan(text, range?.first ?? 0);
  const long: FoundText[] = [];
  for await (const piece of await opened(bucket, key, range)) {
    for (const line of scan.add(piece)) {
      if (line.bytes) yield line;
      else long.push(line);
    }
  }
  yield* long;
}

/**
 * Reads the upload of a long line that `linesWith` has found; undefined if the line is malformed.
 *
 * @throws SegmentGoneError if the segment is missing, or a removal of uploads has moved the line.
 */
export async function readFound(bucket: Bucket, key: string, text: string, range: ByteRange): Promise<Upload | undefined> {
  const line = await readRange(bucket, key, range);
  if (!line.includes(text)) throw new SegmentGoneError(key);
  return decodeIndexLine(line);
}

/**
 * The valid index lines of a segment of any length: their uploads and their lengths in bytes. Holds as much in memory as
 * `wholeLines`.
 *
 * @throws SegmentGoneError if the segment is missing.
 */
export async function* allLines(bucket: Bucket, key: string): AsyncGenerator<{ upload: Upload; length: number }> {
  for await (const lines of wholeLines(bucket, key)) {
    for await (const { upload, begin, end } of linesIn(lines.bytes)) yield { upload, length: end - begin };
  }
}

/**
 * Reads the complete lines that begin in a range of a segment, some at a time: their bytes, and the offset of the bytes in
 * the segment. The bytes must not be used any more when the next ones are asked for. Holds one line and one piece of the
 * segment in memory, and a copy of both.
 *
 * @param range the range; by default the whole segment.
 * @param longest how long a line may be, in bytes.
 * @throws SegmentGoneError if the segment is missing; LineTooLongError if a line is longer than `longest`.
 */
export async function* wholeLines(bucket: Bucket, key: string, range?: ByteRange, longest = Infinity): AsyncGenerator<{ bytes: Buffer; offset: number }> {
  // The byte before the range is read too: if it is a newline, a line begins at the first byte of the range.
  const first = Math.max(0, (range?.first ?? 0) - 1);
  let isWithinLine = range !== undefined && range.first > 0;
  let offset = first;
  let rest: Uint8Array[] = [];
  let restBytes = 0;
  for await (const piece of await opened(bucket, key, range && { first, last: range.last })) {
    let bytes = Buffer.from(piece.buffer, piece.byteOffset, piece.length);
    if (isWithinLine) {
      const begin = bytes.indexOf(NEWLINE) + 1;
      isWithinLine = begin === 0;
      offset += isWithinLine ? bytes.length : begin;
      if (isWithinLine) continue;
      bytes = bytes.subarray(begin);
    }
    const whole = bytes.lastIndexOf(NEWLINE) + 1;
    if (whole > 0) {
      const lines = joined([...rest, bytes.subarray(0, whole)]);
      yield { bytes: lines, offset };
      offset += lines.length;
      rest = [];
      restBytes = 0;
    }
    // The rest of the piece is copied, because the next piece may use the same memory.
    if (whole < bytes.length) rest.push(Buffer.from(bytes.subarray(whole)));
    restBytes += bytes.length - whole;
    if (restBytes > longest) throw new LineTooLongError(offset);
  }
}

/**
 * Whether a segment contains the id of an upload; undefined if the segment is missing.
 *
 * @param range where the upload's line was when it was read. This range is searched before the whole segment.
 */
export async function mentions(bucket: Bucket, key: string, uploadId: string, range?: ByteRange): Promise<boolean | undefined> {
  const text = JSON.stringify(uploadId);
  for (const part of range ? [range, undefined] : [undefined]) {
    const pieces = await bucket.open(key, part);
    if (!pieces) return undefined;
    if (await containsText(pieces, text)) return true;
  }
  return false;
}
