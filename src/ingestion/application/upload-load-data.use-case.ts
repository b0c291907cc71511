import { Injectable } from '@nestjs/common';
import { ServiceError } from '../../common/service-error.js';
import { uuidAt } from '../../common/uuid.js';
import { contentPath } from '../domain/layout.js';
import { idempotencyScope } from '../domain/idempotency.js';
import { MAX_UPLOAD_DURATION_MS, type UploadKind, type UploadParameters } from '../domain/upload.js';
import { FileStorage, type UploadDraft, type UploadReceipt } from './ports/file-storage.port.js';

export interface UploadLoadDataCommand extends UploadParameters {
  readonly kind: UploadKind;
  readonly idempotencyKey: string | null;
  readonly file: {
    readonly contentType: string;
    readonly bytes: AsyncIterable<Uint8Array>;
    /** Digests in lower-case hex, each of which must equal the file's sha-256. */
    readonly expectedSha256: readonly string[];
  } | null;
  /**
   * Gets the `additional_data`; null if there is none. Called at most once, after the file was read, because the data
   * may follow the file in the request.
   */
  additionalData(): Promise<string | null> | string | null;
}

/** Stores one upload, with or without a file. */
@Injectable()
export class UploadLoadData {
  constructor(private readonly fileStorage: FileStorage) {}

  /**
   * Stores an upload. Resolves when the upload is durable; for a repeated request under an `Idempotency-Key`, when the
   * upload of the first request is.
   *
   * @throws ServiceError `digest-mismatch`; `request-in-progress`; `idempotency-key-reused`; `storage-failure`; errors
   * of reading the request.
   */
  async execute(command: UploadLoadDataCommand): Promise<UploadReceipt> {
    const { kind, customerId, filename, manufacturer, idempotencyKey, file } = command;
    const beganAt = new Date(this.now());
    const uploadId = uuidAt(beganAt);
    const path = file && contentPath({ kind, customerId, filename, uploadId, beganAt });

    const draft: UploadDraft = {
      uploadId,
      kind,
      idempotencyScope: idempotencyKey === null ? null : idempotencyScope(command),
      content: file && path ? { path, bytes: file.bytes } : null,
      conclude: async (stored) => {
        const additionalData = await command.additionalData();
        if (file?.expectedSha256.some((sha256) => sha256 !== stored?.sha256)) throw new ServiceError('digest-mismatch');
        return {
          uploadId,
          kind,
          customerId,
          filename,
          manufacturer,
          idempotencyKey,
          additionalData,
          receivedAt: completionTime(beganAt, this.now()),
          content: file && path && stored ? { path, type: file.contentType, ...stored } : null,
        };
      },
    };
    try {
      return await this.fileStorage.store(draft);
    } catch (error) {
      if (error instanceof ServiceError) throw error;
      throw new ServiceError('storage-failure', 'The file storage failed.', { cause: error });
    }
  }

  private now(): number {
    return this.fileStorage.now?.() ?? Date.now();
  }
}

const completionTime = (beganAt: Date, now: number): Date =>
  new Date(Math.min(Math.max(now, beganAt.getTime()), beganAt.getTime() + MAX_UPLOAD_DURATION_MS));
