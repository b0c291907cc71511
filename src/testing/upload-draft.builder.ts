import { Readable } from 'node:stream';
import { v7 as uuidV7 } from 'uuid';
import type { UploadDraft } from '../ingestion/application/ports/file-storage.port.js';
import { contentPath } from '../ingestion/domain/layout.js';
import type { UploadKind } from '../ingestion/domain/upload.js';

interface DraftParts {
  kind: UploadKind;
  customerId: string;
  filename: string;
  manufacturer: string;
  additionalData: string | null;
  /** When the upload was complete. */
  receivedAt: Date;
  contentType: string;
  bytes: AsyncIterable<Uint8Array> | null;
}

/** Builds drafts of uploads; each `build()` gives one with an id of its own. Without `file()` it has no file. */
export class UploadDraftBuilder {
  constructor(
    private readonly parts: Readonly<DraftParts> = {
      kind: 'historical',
      customerId: 'customer-1',
      filename: 'load.csv',
      manufacturer: 'Acme',
      additionalData: null,
      receivedAt: new Date(),
      contentType: 'application/octet-stream',
      bytes: null,
    },
  ) {}

  /** The same draft with some of its parts changed. */
  with(changes: Partial<DraftParts>): UploadDraftBuilder {
    return new UploadDraftBuilder({ ...this.parts, ...changes });
  }

  /** The same draft with a file of these chunks. */
  file(...chunks: (string | Uint8Array)[]): UploadDraftBuilder {
    return this.with({ bytes: Readable.from(chunks.map((chunk) => Buffer.from(chunk))) });
  }

  build(): UploadDraft {
    const { bytes, contentType, ...parameters } = this.parts;
    const uploadId = uuidV7();
    const path = contentPath({ ...parameters, uploadId, beganAt: parameters.receivedAt });
    return {
      uploadId,
      kind: parameters.kind,
      content: bytes && { path, bytes },
      conclude: (stored) =>
        Promise.resolve({ uploadId, ...parameters, content: stored && { path, type: contentType, ...stored } }),
    };
  }
}

/** A draft of an upload without a file, whose parts are good ones. */
export const anUploadDraft = (): UploadDraftBuilder => new UploadDraftBuilder();
