/** Joins chunks into one buffer. For a single chunk, that buffer shares the memory of the chunk. */
export function joined(chunks: readonly Uint8Array[]): Buffer {
  const [only] = chunks;
  return chunks.length === 1 && only ? Buffer.from(only.buffer, only.byteOffset, only.length) : Buffer.concat(chunks);
}
