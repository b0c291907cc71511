/** Joins chunks of bytes into one buffer. A single chunk isn't copied. */
export function joined(chunks: readonly Uint8Array[]): Buffer {
  const [only] = chunks;
  return chunks.length === 1 && only ? Buffer.from(only.buffer, only.byteOffset, only.length) : Buffer.concat(chunks);
}
