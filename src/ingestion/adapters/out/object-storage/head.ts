/** The first bytes of an upload are joined after this many chunks, because each chunk takes memory beside its bytes. */
const MAX_CHUNKS = 32;

/** Gathers the first bytes of an upload, up to a limit. */
export class Head {
  private chunks: Uint8Array[] = [];
  private length = 0;

  constructor(private readonly maxBytes: number) {}

  /** Takes a chunk and returns true, unless the bytes would then exceed the limit. */
  add(chunk: Uint8Array): boolean {
    if (this.length + chunk.length > this.maxBytes) return false;
    this.chunks.push(chunk);
    this.length += chunk.length;
    if (this.chunks.length === MAX_CHUNKS) this.chunks = [Buffer.concat(this.chunks)];
    return true;
  }

  take(): Uint8Array[] {
    return this.chunks;
  }
}
