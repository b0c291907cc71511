import { Injectable } from '@nestjs/common';
import { ServiceError } from '../../common/service-error.js';
import { uuidAt } from '../../common/uuid.js';
import { contentPath } from '../domain/layout.js';
import { idempotencyScope } from '../domain/idempotency.js';
import { MAX_UPLOAD_DURATION_MS, type UploadKind, type UploadParameters } from '../domain/upload.js';
import { FileStorage, type UploadDraft, type UploadReceipt } from './ports/file-storage.port.js';

export interface UploadLoadDataCommand extends UploadParameters {
  readonly kind: UploadKind;
  /** The client's `Idempotency-Key`; null without one. */
  readonly idempotencyKey: string | null;
  /** Null for an upload without a file. */
  readonly file: {
    /** The media type of the file as the client sent it; `application/octet-stream` if the client sent none. */
    readonly contentType: string;
    readonly bytes: AsyncIterable<Uint8Array>;
    /** Expected sha-256 digests in lower-case hex. The file's sha-256 must equal each of them. */
    readonly expectedSha256: readonly string[];
  } | null;
  /**
   * The `additional_data` of the upload; null without any. Called at most once: after the last byte of the file was
   * read, because the data may follow the file in the request.
   */
  additionalData(): Promise<string | null> | string | null;
}

/** Stores one upload, with or without a file. */
@Injectable()
export class UploadLoadData {
  constructor(private readonly fileStorage: FileStorage) {}

  /**
   * Stores an upload. Resolves when the upload is durable. For a repeated request under an `Idempotency-Key`, resolves
   * when the upload of the first request is known to be durable.
   *
   * @throws ServiceError `digest-mismatch`; `request-in-progress`; `idempotency-key-reused`; `storage-failure`; errors
   *   of reading the request.
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

  /** The present time in milliseconds since 1970: `FileStorage.now`, or this machine's if the store has no clock. */
  private now(): number {
    return this.fileStorage.now?.() ?? Date.now();
  }
}

/**
 * The time at which an upload was complete: `now` (milliseconds since 1970), but at least `beganAt`, and at most
 * MAX_UPLOAD_DURATION_MS after `beganAt`.
 */
const completionTime = (beganAt: Date, now: number): Date =>
  new Date(Math.min(Math.max(now, beganAt.getTime()), beganAt.getTime() + MAX_UPLOAD_DURATION_MS));
