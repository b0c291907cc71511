import {
  type ByteRange,
  type CustomerAccess,
  type LineMemory,
  type RemovalOptions,
  StoredUploads,
  type UploadFilter,
  type UploadPage,
  type UploadPosition,
} from '../../../../application/ports/stored-uploads.port.js';
import { storageFailure } from '../../../../application/storage-failure.js';
import type { Upload } from '../../../../domain/upload.js';
import type { OpenStore } from '../open-store.js';

/** Finds, lists, reads and removes the uploads of a store in a directory of the local file system. */
export class LocalDiskStoredUploads extends StoredUploads {
  constructor(
    /** Runs `work` on the store, reopening a store that went away. Rejects with `storage-failure` if that fails. */
    private readonly withStore: <T>(work: (store: OpenStore) => Promise<T>) => Promise<T>,
  ) {
    super();
  }

  override find(uploadId: string, memory?: LineMemory): Promise<Upload | undefined> {
    return this.run('The index could not be searched.', (store) => store.archive.find(uploadId, memory));
  }

  override list(filter: UploadFilter, limit: number, after?: UploadPosition, memory?: LineMemory): Promise<UploadPage> {
    return this.run('The index could not be read.', (store) => store.archive.list(filter, limit, after, memory));
  }

  override openContent(upload: Upload, range?: ByteRange): Promise<AsyncIterable<Uint8Array> | undefined> {
    return this.run('A file could not be opened.', (store) => store.archive.openContent(upload, range));
  }

  override remove(uploadId: string, mayAccess?: CustomerAccess): Promise<boolean> {
    return this.run('An upload could not be removed.', (store) => store.archive.remove(uploadId, mayAccess));
  }

  override removeAll(filter: UploadFilter, options: RemovalOptions = {}): Promise<number> {
    return this.run('Uploads could not be removed.', (store) => store.archive.removeAll(filter, options)).catch((error: unknown) => {
      options.signal?.throwIfAborted();
      throw error;
    });
  }

  private run<T>(failure: string, work: (store: OpenStore) => Promise<T>): Promise<T> {
    return this.withStore(work).catch(storageFailure(failure));
  }
}
