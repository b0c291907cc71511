import { Injectable } from '@nestjs/common';
import { ServiceError } from '../../common/service-error.js';
import type { Upload } from '../domain/upload.js';
import { FileStorage } from './ports/file-storage.port.js';
import type { ByteRange, CustomerAccess, LineMemory } from './ports/stored-uploads.port.js';
import { storedUploadsOf } from './stored-uploads-of.js';

/** Finds one upload that the caller may access, and opens its file. */
@Injectable()
export class FindUpload {
  constructor(private readonly fileStorage: FileStorage) {}

  /**
   * Finds an upload by its id.
   *
   * @throws ServiceError `not-found` if there is no such upload, the caller may not access it, or the store has no
   *   `storedUploads`; `storage-failure`.
   */
  async execute(uploadId: string, mayAccess: CustomerAccess, memory?: LineMemory): Promise<Upload> {
    const upload = await storedUploadsOf(this.fileStorage).find(uploadId, memory);
    if (!upload) throw new ServiceError('not-found', 'There is no such upload.');
    if (!mayAccess(upload.customerId)) throw new ServiceError('not-found', "The upload is another customer's.");
    return upload;
  }

  /**
   * Opens the file of an upload that `execute` has found. A caller that stops early must end the iterator.
   *
   * @throws ServiceError `not-found` if the upload has no file, or was removed in the meantime; `storage-failure`, also
   *   while reading.
   */
  async open(upload: Upload, range?: ByteRange): Promise<AsyncIterable<Uint8Array>> {
    const bytes = upload.content && (await storedUploadsOf(this.fileStorage).openContent(upload, range));
    if (!bytes) throw new ServiceError('not-found', 'There is no such file.');
    return bytes;
  }
}
