import { createHash } from 'node:crypto';
import { FileStorage, type UploadDraft } from '../ingestion/application/ports/file-storage.port.js';
import type { Upload } from '../ingestion/domain/upload.js';

/** A `FileStorage` for tests: keeps everything in memory, and fails when it is told to. */
export class InMemoryFileStorage extends FileStorage {
  private readonly kept: { upload: Upload; bytes: Buffer | null }[] = [];
  private failure: Error | null = null;

  /** What was stored, in the order in which it was complete. */
  get uploads(): readonly Upload[] {
    return this.kept.map(({ upload }) => upload);
  }

  /** The bytes of a stored file; null when there is none at that path. */
  bytes(path: string): Buffer | null {
    return this.kept.find(({ upload }) => upload.content?.path === path)?.bytes ?? null;
  }

  /** From now on every call rejects with this error. */
  failWith(error: Error): void {
    this.failure = error;
  }

  /** All is well again. */
  recover(): void {
    this.failure = null;
  }

  override async store(draft: UploadDraft): Promise<Upload> {
    await this.checkHealth();
    const bytes = draft.content && (await collect(draft.content.bytes));
    const upload = await draft.conclude(
      bytes && { size: bytes.length, sha256: createHash('sha256').update(bytes).digest('hex') },
    );
    this.kept.push({ upload, bytes });
    return upload;
  }

  override checkHealth(): Promise<void> {
    return this.failure ? Promise.reject(this.failure) : Promise.resolve();
  }
}

async function collect(bytes: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  // A source may use its buffer again for the next chunk.
  for await (const chunk of bytes) chunks.push(Buffer.from(chunk));
  return Buffer.concat(chunks);
}
