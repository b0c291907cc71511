import { createHash } from 'node:crypto';
import { ServiceError } from '../common/service-error.js';
import { FileStorage, receiptOf, type UploadDraft, type UploadReceipt } from '../ingestion/application/ports/file-storage.port.js';
import { idempotencyScope, isKeptUnderKey, requestIdentity } from '../ingestion/domain/idempotency.js';
import type { Upload } from '../ingestion/domain/upload.js';

interface Kept {
  readonly upload: Upload;
  readonly bytes: Buffer | null;
}

/** A `FileStorage` for tests. Keeps everything in memory, and fails on demand. */
export class InMemoryFileStorage extends FileStorage {
  private readonly kept: Kept[] = [];
  private readonly running = new Set<string>();
  private failure: Error | null = null;

  /** The stored uploads, in the order in which the uploads were complete. */
  get uploads(): readonly Upload[] {
    return this.kept.map(({ upload }) => upload);
  }

  /** The bytes of the stored file at a content path; null if there is no such file. */
  bytes(path: string): Buffer | null {
    return this.kept.find(({ upload }) => upload.content?.path === path)?.bytes ?? null;
  }

  /** Makes every call reject with this error, until `recover`. */
  failWith(error: Error): void {
    this.failure = error;
  }

  /** Ends `failWith`. */
  recover(): void {
    this.failure = null;
  }

  override async store(draft: UploadDraft): Promise<UploadReceipt> {
    await this.checkHealth();
    const { idempotencyScope: scope } = draft;
    if (scope === null) return receiptOf(this.keep(await read(draft)));
    if (this.running.has(scope)) throw new ServiceError('request-in-progress', 'A request with this Idempotency-Key is in progress.', { retryAfterSeconds: 1 });
    const earlier = this.uploads.find((upload) => idempotencyScope(upload) === scope && isKeptUnderKey(upload.receivedAt));
    if (earlier) {
      const repeated = await read(draft);
      if (requestIdentity(repeated.upload) !== requestIdentity(earlier)) throw new ServiceError('idempotency-key-reused');
      return { ...receiptOf(earlier), replayed: true };
    }
    this.running.add(scope);
    try {
      return receiptOf(this.keep(await read(draft)));
    } finally {
      this.running.delete(scope);
    }
  }

  override checkHealth(): Promise<void> {
    return this.failure ? Promise.reject(this.failure) : Promise.resolve();
  }

  private keep(kept: Kept): Upload {
    this.kept.push(kept);
    return kept.upload;
  }
}

async function read(draft: UploadDraft): Promise<Kept> {
  const bytes = draft.content && (await collect(draft.content.bytes));
  const upload = await draft.conclude(
  bytes && { size: bytes.length, sha256: createHash('sha256').update(bytes).digest('hex') },
  );
  return { upload, bytes };
}

async function collect(bytes: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  // A source may reuse its buffer for the next chunk.
  for await (const chunk of bytes) chunks.push(Buffer.from(chunk));
  return Buffer.concat(chunks);
}
