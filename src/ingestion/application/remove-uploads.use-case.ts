import { Injectable } from '@nestjs/common';
import { ServiceError } from '../../common/service-error.js';
import { FileStorage } from './ports/file-storage.port.js';
import type { CustomerAccess, RemovalOptions, UploadFilter } from './ports/stored-uploads.port.js';
import { storedUploadsOf } from './stored-uploads-of.js';

/** Removes uploads for good: their index lines, the bytes of their files and their idempotency keys. */
@Injectable()
export class RemoveUploads {
  constructor(private readonly fileStorage: FileStorage) {}

  /**
   * Removes one upload. After a `storage-failure`, call it again to complete the removal.
   *
   * @throws ServiceError `not-found` if there is no such upload, the caller may not access it, or the store has no
   *   `storedUploads`; `storage-failure`.
   */
  async one(uploadId: string, mayAccess: CustomerAccess): Promise<void> {
    const storedUploads = storedUploadsOf(this.fileStorage);
    const upload = await storedUploads.find(uploadId);
    // The access is also checked here, because a store may ignore the second parameter of `remove`.
    if (upload && !mayAccess(upload.customerId)) throw new ServiceError('not-found', "The upload is another customer's.");
    if (!(await storedUploads.remove(uploadId, mayAccess))) throw new ServiceError('not-found', 'There is no such upload.');
  }

  /**
   * Removes all uploads that a filter selects, and returns their number.
   *
   * @throws ServiceError `not-found` if the store has no `storedUploads`; `storage-failure`, after which a repeated
   *   call removes the rest. The reason of `options.signal` when that aborts.
   */
  async all(filter: UploadFilter, options: RemovalOptions = {}): Promise<number> {
    return storedUploadsOf(this.fileStorage).removeAll(filter, options);
  }
}
