import { Injectable } from '@nestjs/common';
import { v7 as uuidV7 } from 'uuid';
import { ServiceError } from '../../common/service-error.js';
import { contentPath } from '../domain/layout.js';
import { assertUploadParameters, type Upload, type UploadKind, type UploadParameters } from '../domain/upload.js';
import { FileStorage, type UploadDraft } from './ports/file-storage.port.js';

export interface UploadLoadDataCommand extends UploadParameters {
  readonly kind: UploadKind;
  /** Null for an upload without a file. */
  readonly file: {
    /** The media type as the client sent it. */
    readonly contentType: string;
    readonly bytes: AsyncIterable<Uint8Array>;
  } | null;
  /** Called once, after the last byte of the file: what may stand behind the file in the request is known then. */
  additionalData(): Promise<string | null>;
}

/** Takes in one upload: JSON, or a file. */
@Injectable()
export class UploadLoadData {
  constructor(private readonly fileStorage: FileStorage) {}

  /**
   * Resolves when the upload is durable.
   *
   * @throws ServiceError `invalid-query-parameter`; `storage-failure`; what reading the request throws.
   */
  async execute(command: UploadLoadDataCommand): Promise<Upload> {
    assertUploadParameters(command);
    const { kind, customerId, filename, manufacturer, file } = command;
    const beganAt = new Date();
    const uploadId = uuidV7({ msecs: beganAt.getTime() });
    const path = file && contentPath({ kind, customerId, filename, uploadId, beganAt });

    const draft: UploadDraft = {
      uploadId,
      kind,
      content: file && path ? { path, bytes: file.bytes } : null,
      conclude: async (stored) => ({
        uploadId,
        kind,
        customerId,
        filename,
        manufacturer,
        additionalData: await command.additionalData(),
        receivedAt: new Date(),
        content: file && path && stored ? { path, type: file.contentType, ...stored } : null,
      }),
    };
    try {
      return await this.fileStorage.store(draft);
    } catch (error) {
      if (error instanceof ServiceError) throw error;
      throw new ServiceError('storage-failure', 'The file storage failed.', { cause: error });
    }
  }
}
