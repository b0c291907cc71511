/** All chunks in one. A single chunk is returned as it is, without a copy. */
export function joined(chunks: readonly Uint8Array[]): Buffer {
  const [only] = chunks;
  return chunks.length === 1 && only ? Buffer.from(only.buffer, only.byteOffset, only.length) : Buffer.concat(chunks);
}
