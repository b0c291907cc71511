import { joined } from '../../../../../common/joined.js';
import { Turns } from '../../../../../common/turns.js';
import { decodeIndexLine } from '../../../../application/encoded-upload.js';
import type { Upload } from '../../../../domain/upload.js';
import type { Bucket, ByteRange } from '../bucket.js';

const NEWLINE = 0x0a;

/** A segment was removed after it was listed, because compaction has moved its lines to another one. */
export class SegmentGoneError extends Error {
  constructor(key: string) {
    super(`${key} is gone.`);
    this.name = new.target.name;
  }
}

/** A line of a segment. */
export interface Line {
  readonly upload: Upload;
  /** The offset of the line, in bytes from the beginning of what was read. */
  readonly begin: number;
  /** The offset after the line and its newline. */
  readonly end: number;
}

/** The lines in some bytes that begin with a line. Leaves out what isn't a whole and valid line. Yields to other work. */
export async function* linesIn(bytes: Buffer): AsyncGenerator<Line> {
  const turns = new Turns();
  for (let begin = 0; ; ) {
    const newline = bytes.indexOf(NEWLINE, begin);
    if (newline < 0) return;
    const end = newline + 1;
    if (turns.isOver) await turns.next();
    const upload = await decodeIndexLine(bytes.subarray(begin, newline));
    if (upload && isValid(upload)) yield { upload, begin, end };
    begin = end;
  }
}

/**
 * Reads a part of a segment, from the first line that begins in it.
 *
 * @returns the lines and the offset of the first one; undefined if no line begins in the part.
 * @throws SegmentGoneError
 */
export async function readPart(bucket: Bucket, key: string, range: ByteRange): Promise<{ bytes: Buffer; offset: number } | undefined> {
  // With the byte before, to see whether a line begins at the first one.
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
 * The lines of a segment of any length that contain a text. Holds one line, or one piece of the segment, in memory.
 *
 * @param range begins and ends with whole lines.
 * @throws SegmentGoneError
 */
export async function* linesWith(bucket: Bucket, key: string, text: string, range?: ByteRange): AsyncGenerator<{ upload: Upload; length: number }> {
  let rest: Uint8Array[] = [];
  for await (const piece of await opened(bucket, key, range)) {
    const bytes = Buffer.from(piece.buffer, piece.byteOffset, piece.length);
    const end = bytes.lastIndexOf(NEWLINE) + 1;
    if (end > 0) {
      const lines = joined([...rest, bytes.subarray(0, end)]);
      for (let found = lines.indexOf(text); found >= 0; ) {
        const newline = lines.indexOf(NEWLINE, found);
        const begin = lines.lastIndexOf(NEWLINE, found) + 1;
        const upload = await decodeIndexLine(lines.subarray(begin, newline));
        if (upload && isValid(upload)) yield { upload, length: newline - begin };
        found = lines.indexOf(text, newline);
      }
      rest = [];
    }
    // The next piece may use the same memory.
    if (end < bytes.length) rest.push(Buffer.from(bytes.subarray(end)));
  }
}

/**
 * Whether a segment mentions an upload. False if the segment is gone.
 *
 * @param range the part of the segment in which the upload's line was, and probably is.
 */
export async function mentions(bucket: Bucket, key: string, uploadId: string, range: ByteRange): Promise<boolean> {
  const text = JSON.stringify(uploadId);
  for (const part of [range, undefined]) {
    let rest: Uint8Array = Buffer.alloc(0);
    for await (const piece of (await bucket.open(key, part)) ?? []) {
      const bytes = Buffer.concat([rest, piece]);
      if (bytes.includes(text)) return true;
      rest = bytes.subarray(-text.length);
    }
  }
  return false;
}

/** All lines of a segment, as `linesWith` yields them. */
export const allLines = (bucket: Bucket, key: string): ReturnType<typeof linesWith> => linesWith(bucket, key, '"upload_id"');

const isValid = ({ receivedAt }: Upload): boolean => !Number.isNaN(receivedAt.getTime());
