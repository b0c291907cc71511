/**
 * The most chunks of a stream that are gathered in memory, by `readHead` or for one write to the disk. A limit in bytes
 * alone isn't enough, because a tiny chunk takes far more memory than its length.
 */
export const MAX_CHUNKS = 1024;

/** A stream of bytes whose first chunks (`chunks`) were read into memory. */
export interface StreamHead<Chunk extends Uint8Array> {
  readonly chunks: readonly Chunk[];
  /** Yields the bytes after `chunks`; undefined if `chunks` is the whole stream. */
  readonly rest: AsyncIterator<Chunk> | undefined;
}

/**
 * Reads the first chunks of a stream. Stops at the end of the stream, or as soon as more than `most` bytes or
 * MAX_CHUNKS chunks were read. Throws the errors of `bytes`.
 */
export async function readHead<Chunk extends Uint8Array>(bytes: AsyncIterable<Chunk>, most: number): Promise<StreamHead<Chunk>> {
  const rest = bytes[Symbol.asyncIterator]();
  const chunks: Chunk[] = [];
  for (let length = 0; length <= most && chunks.length < MAX_CHUNKS; ) {
    const next = await rest.next();
    if (next.done) return { chunks, rest: undefined };
    chunks.push(next.value);
    length += next.value.length;
  }
  return { chunks, rest };
}

/**
 * Yields all bytes of a stream: first the chunks of its head, then the bytes of `rest`. Throws the errors of `rest`. A
 * caller that stops early must end `rest` itself, because ending a generator whose reading hasn't begun runs none of
 * its code.
 */
export async function* behindHead<Chunk extends Uint8Array>({ chunks, rest }: StreamHead<Chunk>): AsyncGenerator<Chunk, void, undefined> {
  yield* chunks;
  if (rest) yield* { [Symbol.asyncIterator]: () => rest };
}
