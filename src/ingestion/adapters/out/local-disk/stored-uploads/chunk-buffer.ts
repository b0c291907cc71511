/**
 * Memory for the bytes that are read for one chunk of a segment, and then for the next. With a buffer for each chunk, a
 * page of one customer spends more time in the garbage collector than in reading.
 */
export class ChunkBuffer {
  private bytes = Buffer.alloc(0);

  /** Returns this many bytes, which may contain anything. They are valid until the next call. */
  take(length: number): Buffer {
    if (length > this.bytes.length) this.bytes = Buffer.allocUnsafeSlow(length);
    return this.bytes.subarray(0, length);
  }
}
