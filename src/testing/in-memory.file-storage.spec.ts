import { describe, expect, it } from 'vitest';
import { ServiceError } from '../common/service-error.js';
import type { UploadDraft, UploadReceipt } from '../ingestion/application/ports/file-storage.port.js';
import { indexLine } from '../ingestion/domain/layout.js';
import { eventOutboxContract } from './event-outbox.contract.js';
import { fileStorageContract, type FileStorageContractSubject } from './file-storage.contract.js';
import { InMemoryFileStorage } from './in-memory.file-storage.js';
import { storedUploadsContract } from './stored-uploads.contract.js';
import { anUploadDraft, storeUpload } from './upload-draft.builder.js';

/**
 * A store whose `store` returns the whole upload that `conclude` made. That is a valid receipt, because an upload has
 * all members of a receipt.
 */
class UploadReturningStorage extends InMemoryFileStorage {
  override async store(draft: UploadDraft): Promise<UploadReceipt> {
    const receipt = await super.store(draft);
    return receipt.replayed ? receipt : (this.uploads.find(({ uploadId }) => uploadId === receipt.uploadId) ?? receipt);
  }
}

const setUp = (storage = new InMemoryFileStorage()): Promise<FileStorageContractSubject> => {
  return Promise.resolve({
    storage,
    isInMemory: true,
    reopen: () => Promise.resolve(storage),
    lines: () => Promise.resolve(storage.uploads.map((upload) => JSON.parse(indexLine(upload)) as object)),
    bytes: (path) => Promise.resolve(storage.bytes(path)),
    contentPaths: () => Promise.resolve(storage.uploads.flatMap(({ content }) => content?.path ?? [])),
    tearDown: () => Promise.resolve(),
  });
};
fileStorageContract('in memory', () => setUp());
fileStorageContract('in memory, with uploads as receipts', () => setUp(new UploadReturningStorage()));
storedUploadsContract('in memory', () => setUp());
eventOutboxContract('in memory', () => setUp());

describe('InMemoryFileStorage', () => {
  it('fails with the given error and keeps nothing until it recovers', async () => {
    const storage = new InMemoryFileStorage();
    const failure = new ServiceError('storage-failure');
    storage.failWith(failure);
    await expect(storage.store(anUploadDraft().file('bytes').build())).rejects.toBe(failure);
    await expect(storage.checkHealth()).rejects.toBe(failure);
    expect(storage.uploads).toEqual([]);

    storage.recover();
    const upload = await storeUpload(storage, anUploadDraft().build());
    await storage.checkHealth();
    expect(storage.uploads).toEqual([upload]);
  });
});
