import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { ObjectStorageFileStorage } from 'load-data-service';
import { BucketView } from 'load-data-service/testing';
import { bucketContract, eventOutboxContract, fileStorageContract, storedUploadsContract } from 'load-data-service/testing/contracts';
import { FolderBucket } from './folder-bucket.js';

const runner = { describe, it, beforeEach, afterEach };

bucketContract(
  'FolderBucket',
  async () => {
    const folder = await mkdtemp(join(tmpdir(), 'bucket-'));
    const bucket = new FolderBucket(folder, 'team/');
    return {
      bucket,
      neighbour: new FolderBucket(folder, 'team-2/'),
      parts: async (key) => (await bucket.partsOf(key)).length,
      leaveParts: (key) => bucket.write(key, [Buffer.alloc(1)]),
      tearDown: () => rm(folder, { recursive: true }),
    };
  },
  runner,
);

const setUp = async () => {
  const folder = await mkdtemp(join(tmpdir(), 'bucket-'));
  const view = new BucketView(new FolderBucket(folder));
  /**
   * By how many milliseconds an object looks older than it is, by key, because a test can't store an object in the
   * past.
   */
  const olderMs = new Map();
  const open = () => {
    const bucket = new FolderBucket(folder);
    const read = bucket.read.bind(bucket);
    bucket.read = async (key) => {
      const object = await read(key);
      return object && { ...object, ageMs: object.ageMs + (olderMs.get(key) ?? 0) };
    };
    return new ObjectStorageFileStorage({ bucket });
  };
  let storage = open();
  return {
    storage,
    reopen: async () => {
      await storage.close();
      return (storage = open());
    },
    lines: () => view.lines(),
    bytes: (path) => view.bytes(path),
    contentPaths: () => view.contentPaths(),
    storeEarlier: async (draft, ageMs) => {
      await storage.store(draft);
      for (const key of await view.keys('uploads/')) if (key.includes(draft.uploadId)) olderMs.set(key, ageMs);
    },
    tearDown: async () => {
      await storage.close();
      await rm(folder, { recursive: true });
    },
  };
};
fileStorageContract('uploads in a FolderBucket', setUp, runner);
storedUploadsContract('uploads in a FolderBucket', setUp, runner);
eventOutboxContract('uploads in a FolderBucket', setUp, runner);
