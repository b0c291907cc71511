import { ContentDigest } from '../../../application/content.js';
import type { StoredContent } from '../../../application/ports/file-storage.port.js';
import type { Upload } from '../../../domain/upload.js';

/** An upload with a file, all of whose bytes have arrived. */
interface Concluded {
  readonly upload: Upload;
  /** The key of the segment (object) that will contain the upload's index line, and no other. */
  readonly segment: string;
}

/**
 * The bytes of an upload's file on their way to the bucket. The iteration reaches its end without an error only after
 * `conclude` has resolved, because the bucket makes the file visible as soon as the bytes end.
 */
export class ContentSource implements AsyncIterable<Uint8Array> {
  /** True once the iteration has thrown, also an error of `fail`. Stays false if only the bucket's write has failed. */
  hasFailed = false;
  private failure: { readonly error: unknown } | undefined;
  private result: Concluded | undefined;

  /**
   * @param conclude called after the last byte, unless `fail` was called before. If it rejects, the iteration throws
   *   its error instead of ending.
   */
  constructor(
    private readonly bytes: AsyncIterable<Uint8Array>,
    private readonly conclude: (stored: StoredContent) => Promise<Concluded>,
  ) {}

  /** The result of `conclude`. Throws unless `conclude` has resolved. */
  get concluded(): Concluded {
    if (!this.result) throw new Error('The bytes were not read to their end.');
    return this.result;
  }

  /** Makes the iteration throw this error at the next chunk, or at the end of the bytes. Only the first call counts. */
  fail(error: unknown): void {
    this.failure ??= { error };
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array> {
    const digest = new ContentDigest();
    try {
      for await (const chunk of this.bytes) {
        this.assertGoesOn();
        digest.add(chunk);
        yield chunk;
      }
      this.assertGoesOn();
      this.result = await this.conclude(digest.end());
    } catch (error) {
      this.hasFailed = true;
      throw error;
    }
  }

  private assertGoesOn(): void {
    if (this.failure) throw this.failure.error;
  }
}
