/**
 * The most chunks of a stream that are gathered in memory. A limit in bytes alone isn't enough, because a tiny chunk
 * takes far more memory than its length.
 */
export const MAX_CHUNKS = 1024;

export interface StreamHead<Chunk extends Uint8Array> {
  readonly chunks: Chunk[];
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
 * Yields all bytes of a stream, its head included. Takes each chunk out of the head, so that a slow stream doesn't hold
 * its first chunks until it ends. Ends `rest` when a caller stops early, except one that hasn't begun to read: ending
 * such a generator runs none of its code.
 *
 * @throws errors of `rest`.
 */
export async function* behindHead<Chunk extends Uint8Array>({ chunks, rest }: StreamHead<Chunk>): AsyncGenerator<Chunk, void, undefined> {
  try {
    for (let chunk = chunks.shift(); chunk; chunk = chunks.shift()) yield chunk;
    if (rest) yield* { [Symbol.asyncIterator]: () => rest };
  } finally {
    await rest?.return?.();
  }
}
