import { ContentDigest } from '../../../application/content.js';
import type { StoredContent } from '../../../application/ports/file-storage.port.js';
import type { Upload } from '../../../domain/upload.js';

interface Concluded {
  readonly upload: Upload;
  readonly segment: string;
}

/**
 * The bytes of an upload's file on their way to the bucket. Their end is held back until the callback `conclude` has
 * resolved, because the bucket makes the file visible as soon as the bytes end.
 */
export class ContentSource implements AsyncIterable<Uint8Array> {
  /** True once the iteration of the bytes has thrown. Stays false if only the bucket's write of the file has failed. */
  hasFailed = false;
  private failure: { readonly error: unknown } | undefined;
  private result: Concluded | undefined;

  constructor(
    private readonly bytes: AsyncIterable<Uint8Array>,
    private readonly conclude: (stored: StoredContent) => Promise<Concluded>,
  ) {}

  get concluded(): Concluded {
    if (!this.result) throw new Error('The bytes were not read to their end.');
    return this.result;
  }

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
