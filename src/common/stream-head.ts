/**
 * The most chunks of a stream that are gathered in memory. A limit in bytes alone isn't enough, because a tiny chunk
 * takes far more memory than its length.
 */
export const MAX_CHUNKS = 1024;

export interface StreamHead<Chunk extends Uint8Array> {
  readonly chunks: readonly Chunk[];
  /** The rest of the stream; undefined if `chunks` is the whole stream. */
  readonly rest: AsyncIterator<Chunk> | undefined;
}

/**
 * Reads the first chunks of a stream: to its end, or until more than `most` bytes or MAX_CHUNKS chunks were read.
 *
 * @throws errors of `bytes`.
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
 * Yields all bytes of a stream, its head included. A caller that stops early must end `rest` itself, because ending a
 * generator whose reading hasn't begun runs none of its code.
 *
 * @throws errors of `rest`.
 */
export async function* behindHead<Chunk extends Uint8Array>({ chunks, rest }: StreamHead<Chunk>): AsyncGenerator<Chunk, void, undefined> {
  yield* chunks;
  if (rest) yield* { [Symbol.asyncIterator]: () => rest };
}
