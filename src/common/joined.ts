/** Joins chunks of bytes into one buffer. If there is only one chunk, the buffer shares that chunk's memory. */
export function joined(chunks: readonly Uint8Array[]): Buffer {
  const [only] = chunks;
  return chunks.length === 1 && only ? Buffer.from(only.buffer, only.byteOffset, only.length) : Buffer.concat(chunks);
}
