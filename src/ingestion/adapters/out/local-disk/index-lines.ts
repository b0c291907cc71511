import { isUtf8 } from 'node:buffer';
import type { DiskFile } from './disk.js';

export const NEWLINE = 0x0a;
export const NEWLINE_BYTES = Buffer.from([NEWLINE]);
const CHUNK_BYTES = 1024 * 1024;

/** The `upload_id` of an index line; undefined if the line isn't JSON in UTF-8 with a text as its `upload_id`. */
export function uploadIdOf(line: Buffer): string | undefined {
  if (!isUtf8(line)) return undefined;
  try {
    const { upload_id: id } = JSON.parse(line.toString()) as { upload_id?: unknown };
    return typeof id === 'string' ? id : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Yields the lines of a file between two positions (in bytes), without their newlines. Omits an unterminated last line.
 * Needs memory for the longest line, but at least 1 MiB.
 */
export async function* readLines(file: DiskFile, from: number, to = Infinity): AsyncGenerator<Buffer> {
  let rest = Buffer.alloc(0);
  const chunk = Buffer.alloc(CHUNK_BYTES);
  for (let position = from; ; ) {
    const read = await file.read(chunk.subarray(0, Math.min(CHUNK_BYTES, to - position)), position);
    if (read === 0) return;
    position += read;
    rest = Buffer.concat([rest, chunk.subarray(0, read)]);
    let begin = 0;
    for (let end = rest.indexOf(NEWLINE); end >= 0; end = rest.indexOf(NEWLINE, begin)) {
      yield rest.subarray(begin, end);
      begin = end + 1;
    }
    rest = rest.subarray(begin);
  }
}
