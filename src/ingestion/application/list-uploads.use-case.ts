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
   * @param after `next` of the previous page; undefined for the first page.
   * @throws ServiceError `not-found` if the store has no `storedUploads`; `storage-failure`.
   */
  async execute(filter: UploadFilter, limit: number, after?: UploadPosition, memory?: LineMemory): Promise<UploadPage> {
    return storedUploadsOf(this.fileStorage).list(filter, limit, after, memory);
  }
}
