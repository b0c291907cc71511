import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { DAY_MS } from '../../src/common/durations.js';
import type { StoredUploads } from '../../src/ingestion/application/ports/stored-uploads.port.js';
import { AzureBlobBucket } from '../../src/ingestion/adapters/out/object-storage/azure-blob/azure-blob.bucket.js';
import type { Bucket } from '../../src/ingestion/adapters/out/object-storage/bucket.js';
import { ObjectStorageFileStorage } from '../../src/ingestion/adapters/out/object-storage/object-storage.file-storage.adapter.js';
import { S3Bucket } from '../../src/ingestion/adapters/out/object-storage/s3/s3.bucket.js';
import { BucketView } from '../../src/testing/bucket.view.js';
import { eventOutboxContract } from '../../src/testing/event-outbox.contract.js';
import { fileStorageContract, type FileStorageContractSubject } from '../../src/testing/file-storage.contract.js';
import { storedUploadsContract } from '../../src/testing/stored-uploads.contract.js';
import { anUploadDraft } from '../../src/testing/upload-draft.builder.js';
import { type Azurite, startAzurite } from '../servers/azurite.mjs';
import { isVersitygwAvailable, startVersitygw, type Versitygw } from '../servers/versitygw.mjs';

const CONTAINER = 'load-data';
const LIMITS = { timeoutMs: 20_000, maxUploadBytes: 5 * 1024 ** 3 };

/**
 * Runs the contracts of a file storage, of stored uploads and of an event outbox on an object storage, through the
 * buckets that `open` returns. Each test uses its own key prefix.
 */
function contractOn(name: string, open: (prefix: string) => Bucket): void {
  const setUp = (): Promise<FileStorageContractSubject> => {
    const prefix = `${randomUUID()}/`;
    const looking = open(prefix);
    const view = new BucketView(looking);
    /**
     * For some keys, how many milliseconds older an object is made to appear, because a test can't store an object in
     * the past.
     */
    const addedMs = new Map<string, number>();
    const openStorage = () => {
      const bucket = open(prefix);
      const read = bucket.read.bind(bucket);
      bucket.read = async (key) => {
        const found = await read(key);
        return found && { ...found, ageMs: found.ageMs + (addedMs.get(key) ?? 0) };
      };
      return new ObjectStorageFileStorage({ bucket, logger: { warn: () => undefined } });
    };
    let storage = openStorage();
    return Promise.resolve({
      storage,
      reopen: async () => {
        await storage.close();
        return (storage = openStorage());
      },
      lines: () => view.lines(),
      bytes: (path) => view.bytes(path),
      contentPaths: () => view.contentPaths(),
      storeEarlier: async (draft, ageMs) => {
        await storage.store(draft);
        for (const key of await view.keys('uploads/')) if (key.includes(draft.uploadId)) addedMs.set(key, ageMs);
      },
      tearDown: async () => {
        await storage.close();
        looking.close();
      },
    });
  };
  fileStorageContract(name, setUp);
  storedUploadsContract(name, setUp);
  eventOutboxContract(name, setUp);

  it.each([
    ['one claim', 1],
    ['all claims', Infinity],
  ])(`rebuilds %s lost while the service was stopped, and warns once (${name})`, async (_, count) => {
    const prefix = `${randomUUID()}/`;
    const warnings: string[] = [];
    const looking = open(prefix);
    const view = new BucketView(looking);
    const opened = () => new ObjectStorageFileStorage({ bucket: open(prefix), logger: { warn: (message) => warnings.push(message) } });
    const store = (storage: ObjectStorageFileStorage) =>
      Promise.all(['key-1', 'key-2', 'key-3'].map((idempotencyKey) => storage.store(anUploadDraft().with({ idempotencyKey }).file('the bytes').build())));
    const first = opened();
    const stored = await store(first);
    await first.close();
    const lost = (await view.keys('idempotency/')).slice(0, count);
    await looking.remove(lost);
    const replicas = [opened(), opened()];
    for (const replica of replicas) expect(await store(replica)).toEqual(stored.map((receipt) => ({ ...receipt, replayed: true })));
    await Promise.all(replicas.map((replica) => replica.close()));
    expect(await view.lines()).toHaveLength(stored.length);
    expect(warnings).toEqual([expect.stringMatching(new RegExp(`^${lost.length} claims? of .* missing`))]);
    looking.close();
  });

  it(`finds an upload on any replica, and removes expired uploads by one of them (${name})`, async () => {
    const prefix = `${randomUUID()}/`;
    const replicas = Array.from({ length: 3 }, () => new ObjectStorageFileStorage({ bucket: open(prefix), logger: { warn: () => undefined } }));
    const drafts = [anUploadDraft(), anUploadDraft().file('the bytes'), anUploadDraft().with({ idempotencyKey: 'key' }).file('other bytes')].map((draft) => draft.with({ receivedAt: new Date() }).build());
    const onAll = <Result>(ask: (uploads: StoredUploads) => Promise<Result>) => Promise.all(replicas.map(({ storedUploads }) => ask(storedUploads)));
    for (const draft of drafts) {
      await replicas[0]?.store(draft);
      expect(await onAll(async (uploads) => (await uploads.find(draft.uploadId))?.uploadId)).toEqual(replicas.map(() => draft.uploadId));
    }
    const tomorrow = new Date(Math.ceil((Date.now() + 1) / DAY_MS) * DAY_MS);
    expect((await onAll((uploads) => uploads.removeExpired(tomorrow))).toSorted()).toEqual([0, 0, drafts.length]);
    expect(await onAll((uploads) => uploads.find(drafts[0]?.uploadId ?? ''))).toEqual(replicas.map(() => undefined));
    await Promise.all(replicas.map((replica) => replica.close()));
  });
}

describe.runIf(isVersitygwAvailable())('on S3', () => {
  let server: Versitygw;
  beforeAll(async () => {
    server = await startVersitygw();
    await server.createBucket(CONTAINER);
  });
  afterAll(() => server.stop());

  contractOn('S3, versitygw', (prefix) => {
    const { endpoint, region, accessKeyId, secretAccessKey } = server;
    const credentials = { accessKeyId, secretAccessKey };
    return new S3Bucket({ bucket: CONTAINER, prefix, endpoint, region, credentials, forcePathStyle: true, ...LIMITS });
  });
});

describe('on Azure Blob Storage', () => {
  let server: Azurite;
  beforeAll(async () => {
    server = await startAzurite();
    await server.createContainer(CONTAINER);
  });
  afterAll(() => server.stop());

  contractOn('Azure, Azurite', (prefix) => {
    const { connectionString } = server;
    return new AzureBlobBucket({ container: CONTAINER, prefix, account: { connectionString }, ...LIMITS });
  });
});
