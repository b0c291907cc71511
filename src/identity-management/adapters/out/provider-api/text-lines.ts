import { pipeline, Readable } from 'node:stream';
import { createGunzip } from 'node:zlib';

const GZIP = Buffer.from([0x1f, 0x8b]);
const MAX_LINE_LENGTH = 1024 * 1024;

/**
 * Yields the lines of a UTF-8 text without their line endings. Reads no faster than the lines are consumed. A gzipped
 * text is recognized by its first two bytes. Destroys the stream when the iterator's `return` is called.
 *
 * @throws when the stream fails, a gzipped text is truncated or damaged, or a line has more than 1,048,576 UTF-16
 * units. The chunk in which a line ends isn't checked, so a line may be longer by a part of a chunk.
 */
export async function* textLines(stream: Readable): AsyncGenerator<string, void, undefined> {
  const { head, whole } = await peek(stream, GZIP.length);
  // The callback ignores errors of the pipeline, because reading the decompressed text throws the same errors.
  const text = head.equals(GZIP) ? pipeline(whole, createGunzip(), () => undefined) : whole;
  let rest = '';
  for await (const chunk of text.setEncoding('utf8')) {
    const lines = (rest + String(chunk)).split('\n');
    rest = lines.pop() ?? '';
    if (rest.length > MAX_LINE_LENGTH) throw new Error(`A line has more than ${MAX_LINE_LENGTH} characters.`);
    yield* lines.map((line) => line.replace(/\r$/, ''));
  }
  if (rest !== '') yield rest;
}

async function peek(stream: Readable, length: number): Promise<{ head: Buffer; whole: Readable }> {
  const chunks: AsyncIterator<Buffer> = stream.iterator();
  let read = Buffer.alloc(0);
  for (let next = await chunks.next(); !next.done; next = await chunks.next()) {
    read = Buffer.concat([read, next.value]);
    if (read.length >= length) break;
  }
  async function* whole(): AsyncGenerator<Buffer> {
    yield read;
    yield* { [Symbol.asyncIterator]: () => chunks };
  }
  return { head: read.subarray(0, length), whole: Readable.from(whole()) };
}
