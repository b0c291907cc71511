import { Injectable } from '@nestjs/common';
import { FileStorage } from './ports/file-storage.port.js';
import type { LineMemory, UploadFilter, UploadPage, UploadPosition } from './ports/stored-uploads.port.js';
import { storedUploadsOf } from './stored-uploads-of.js';

/** Lists uploads, newest first, page by page. */
@Injectable()
export class ListUploads {
  constructor(private readonly fileStorage: FileStorage) {}

  /**
   * Lists one page of the uploads that a filter selects.
   *
   * @param limit maximum number of uploads in the page.
   * @param after the position after which the page begins: `next` of the previous page; undefined for the first page.
   * @param memory the memory for the index lines of a long page.
   * @throws ServiceError `not-found` if the adapter of the store can't list uploads (it has no `storedUploads`);
   *   `storage-failure` if reading the store fails.
   */
  async execute(filter: UploadFilter, limit: number, after?: UploadPosition, memory?: LineMemory): Promise<UploadPage> {
    return storedUploadsOf(this.fileStorage).list(filter, limit, after, memory);
  }
}
