import { Readable } from 'node:stream';
import { v7 as uuidV7 } from 'uuid';
import type { FileStorage, UploadDraft, UploadReceipt } from '../ingestion/application/ports/file-storage.port.js';
import { idempotencyScope } from '../ingestion/domain/idempotency.js';
import { contentPath } from '../ingestion/domain/layout.js';
import type { Upload, UploadKind } from '../ingestion/domain/upload.js';

interface DraftParts {
  kind: UploadKind;
  customerId: string;
  filename: string;
  manufacturer: string;
  idempotencyKey: string | null;
  additionalData: string | null;
  receivedAt: Date;
  contentType: string;
  bytes: AsyncIterable<Uint8Array> | null;
}

/** The sequence number in the next upload id, so that ids made for the same `receivedAt` are in order. */
let built = 0;

/** Builds drafts of uploads, each with its own upload id. By default, a draft has no file. */
export class UploadDraftBuilder {
  constructor(
    private readonly parts: Readonly<DraftParts> = {
      kind: 'historical',
      customerId: 'customer-1',
      filename: 'load.csv',
      manufacturer: 'Acme',
      idempotencyKey: null,
      additionalData: null,
      receivedAt: new Date(),
      contentType: 'application/octet-stream',
      bytes: null,
    },
  ) {}

  with(changes: Partial<DraftParts>): UploadDraftBuilder {
    return new UploadDraftBuilder({ ...this.parts, ...changes });
  }

  /** Gives the draft a file, which can be read only once. */
  file(...chunks: (string | Uint8Array)[]): UploadDraftBuilder {
    return this.with({ bytes: Readable.from(chunks.map((chunk) => Buffer.from(chunk))) });
  }

  build(): UploadDraft {
    const { bytes, contentType, ...parameters } = this.parts;
    const uploadId = uuidV7({ msecs: parameters.receivedAt.getTime(), seq: built++ });
    const path = contentPath({ ...parameters, uploadId, beganAt: parameters.receivedAt });
    return {
      uploadId,
      kind: parameters.kind,
      idempotencyScope: idempotencyScope(parameters),
      content: bytes && { path, bytes },
      conclude: (stored) =>
        Promise.resolve({ uploadId, ...parameters, content: stored && { path, type: contentType, ...stored } }),
    };
  }
}

/** Returns a builder of a valid upload draft without a file. */
export const anUploadDraft = (): UploadDraftBuilder => new UploadDraftBuilder();

/**
 * Stores an upload draft, and returns the upload that the draft's `conclude` made.
 *
 * @throws Error when `conclude` wasn't called exactly once, or the draft repeats an upload with the same
 * Idempotency-Key.
 */
export async function storeUpload(storage: FileStorage, draft: UploadDraft): Promise<Upload> {
  const concluded: Upload[] = [];
  const { uploadId } = await storage.store({
    ...draft,
    conclude: async (stored) => {
      const upload = await draft.conclude(stored);
      concluded.push(upload);
      return upload;
    },
  });
  const [upload] = concluded;
  if (concluded.length !== 1 || upload?.uploadId !== uploadId) throw new Error(`${draft.uploadId} was not concluded once.`);
  return upload;
}

/** Stores an upload draft, and returns only those members of the receipt that every store must return. */
export async function seen(storage: FileStorage, draft: UploadDraft): Promise<UploadReceipt> {
  const { uploadId, content, replayed = false } = await storage.store(draft);
  return { uploadId, content: content && { size: content.size, sha256: content.sha256 }, replayed };
}
