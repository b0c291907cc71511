import { Injectable } from '@nestjs/common';
import { ServiceError } from '../../common/service-error.js';
import { type CustomerAccess, FindUpload } from './find-upload.use-case.js';
import { FileStorage } from './ports/file-storage.port.js';
import type { RemovalOptions, UploadFilter } from './ports/stored-uploads.port.js';
import { storedUploadsOf } from './stored-uploads-of.js';

/** Removes uploads for good: their index lines, the bytes of their files and their idempotency keys. */
@Injectable()
export class RemoveUploads {
  constructor(
    private readonly fileStorage: FileStorage,
    private readonly findUpload: FindUpload,
  ) {}

  /**
   * Removes one upload.
   *
   * @throws ServiceError `not-found` if there is no such upload, the caller may not access it, or the store doesn't
   *   offer its uploads; `storage-failure`.
   */
  async one(uploadId: string, mayAccess: CustomerAccess): Promise<void> {
    await this.findUpload.execute(uploadId, mayAccess);
    if (!(await storedUploadsOf(this.fileStorage).remove(uploadId))) throw new ServiceError('not-found', 'The upload was removed meanwhile.');
  }

  /**
   * Removes all uploads that a filter selects.
   *
   * @returns the number of uploads that were removed.
   * @throws ServiceError `not-found` if the store doesn't offer its uploads; `storage-failure`. The call can then be
   *   repeated to remove the rest.
   */
  async all(filter: UploadFilter, options: RemovalOptions = {}): Promise<number> {
    return storedUploadsOf(this.fileStorage).removeAll(filter, options);
  }
}
