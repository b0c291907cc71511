import { pipeline, Readable } from 'node:stream';
import { createGunzip } from 'node:zlib';
import { MIB } from '../../../../common/sizes.js';

const GZIP = Buffer.from([0x1f, 0x8b]);
const MAX_LINE_LENGTH = MIB;

/**
 * Yields the lines of a UTF-8 text, gzipped or not, no faster than they are consumed. Destroys the stream when ended.
 *
 * @throws when the stream fails, a gzipped text is truncated or damaged, or a line has more than about 1,048,576 UTF-16
 * units.
 */
export async function* textLines(stream: Readable): AsyncGenerator<string, void, undefined> {
  const { head, whole } = await peek(stream, GZIP.length);
  // The pipeline's errors are ignored here, because reading the decompressed text throws the same ones.
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
