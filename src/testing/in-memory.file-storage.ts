import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';
import { ServiceError } from '../common/service-error.js';
import { FileStorage, receiptOf, type UploadDraft, type UploadReceipt } from '../ingestion/application/ports/file-storage.port.js';
import { type ByteRange, type CustomerAccess, MAX_PAGE_BYTES, type RemovalOptions, StoredUploads, type UploadFilter, type UploadPage, type UploadPosition } from '../ingestion/application/ports/stored-uploads.port.js';
import { idempotencyScope, isKeptUnderKey, requestIdentity } from '../ingestion/domain/idempotency.js';
import { indexLine } from '../ingestion/domain/layout.js';
import { comparePositions, isSelected } from '../ingestion/domain/upload-filter.js';
import type { Upload } from '../ingestion/domain/upload.js';
import { InMemoryEventOutbox } from './in-memory.event-outbox.js';

interface Kept {
  readonly upload: Upload;
  readonly bytes: Buffer | null;
}

/** An adapter of the `FileStorage` port that keeps uploads in memory, for tests. Fails while a test wants it to. */
export class InMemoryFileStorage extends FileStorage {
  override readonly storedUploads: StoredUploads = new InMemoryUploads(this);
  override readonly eventOutbox: InMemoryEventOutbox = new InMemoryEventOutbox(() => this.checkHealth());
  readonly kept: Kept[] = [];
  private readonly running = new Set<string>();
  private failure: Error | null = null;

  get uploads(): readonly Upload[] {
    return this.kept.map(({ upload }) => upload);
  }

  bytes(path: string): Buffer | null {
    return this.kept.find(({ upload }) => upload.content?.path === path)?.bytes ?? null;
  }

  /**
   * Makes the calls of this storage, `storedUploads` and `eventOutbox` reject with this error until `recover` is
   * called, except `wait`, `giveWay` and `close` of `eventOutbox`.
   */
  failWith(error: Error): void {
    this.failure = error;
  }

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
    this.eventOutbox.stored(kept.upload);
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
  // Each chunk is copied, because the source may reuse the chunk's memory for the next one.
  for await (const chunk of bytes) chunks.push(Buffer.from(chunk));
  return Buffer.concat(chunks);
}

class InMemoryUploads extends StoredUploads {
  constructor(private readonly storage: InMemoryFileStorage) {
    super();
  }

  override async find(uploadId: string): Promise<Upload | undefined> {
    await this.storage.checkHealth();
    return this.storage.uploads.find((upload) => upload.uploadId === uploadId);
  }

  override async list(filter: UploadFilter, limit: number, after?: UploadPosition): Promise<UploadPage> {
    await this.storage.checkHealth();
    const selected = this.storage.uploads
      .filter((upload) => isSelected(upload, filter) && (!after || comparePositions(upload, after) < 0))
      .sort((one, other) => comparePositions(other, one));
    let bytes = 0;
    const uploads = selected.slice(0, limit).filter((upload, index) => {
      bytes += Buffer.byteLength(indexLine(upload));
      return index === 0 || bytes <= MAX_PAGE_BYTES;
    });
    return { uploads, next: uploads.length < selected.length ? (uploads.at(-1) ?? null) : null };
  }

  override async openContent({ content }: Upload, range?: ByteRange): Promise<AsyncIterable<Uint8Array> | undefined> {
    await this.storage.checkHealth();
    const bytes = content && this.storage.bytes(content.path);
    if (!bytes) return undefined;
    const { first, last } = range ?? { first: 0, last: content.size - 1 };
    if (last >= bytes.length) throw new ServiceError('storage-failure', 'The file is shorter than its line says.');
    return Readable.from([bytes.subarray(first, last + 1)]);
  }

  override async remove(uploadId: string, mayAccess: CustomerAccess = () => true): Promise<boolean> {
    await this.storage.checkHealth();
    return this.removeWhere((upload) => upload.uploadId === uploadId && mayAccess(upload.customerId)) > 0;
  }

  override async removeAll(filter: UploadFilter, { dryRun, onProgress, signal }: RemovalOptions = {}): Promise<number> {
    await this.storage.checkHealth();
    signal?.throwIfAborted();
    const isWanted = (upload: Upload): boolean => isSelected(upload, filter);
    const uploads = dryRun ? this.storage.uploads.filter(isWanted).length : this.removeWhere(isWanted);
    onProgress?.({ segments: 1, allSegments: 1, uploads });
    return uploads;
  }

  private removeWhere(isWanted: (upload: Upload) => boolean): number {
    const { kept, eventOutbox } = this.storage;
    const removed = this.storage.uploads.filter(isWanted);
    kept.splice(0, kept.length, ...kept.filter(({ upload }) => !isWanted(upload)));
    for (const upload of removed) eventOutbox.removed(upload);
    return removed.length;
  }
}
