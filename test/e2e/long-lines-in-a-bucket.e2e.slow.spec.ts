import type { Socket } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { answerMemory } from '../../src/common/memory-budget.js';
import { MIB } from '../../src/common/sizes.js';
import { ObjectStorageFileStorage } from '../../src/ingestion/adapters/out/object-storage/object-storage.file-storage.adapter.js';
import { FileStorage } from '../../src/ingestion/application/ports/file-storage.port.js';
import type { Upload } from '../../src/ingestion/domain/upload.js';
import { InMemoryBucket } from '../../src/testing/in-memory.bucket.js';
import { anUploadDraft, storeUpload } from '../../src/testing/upload-draft.builder.js';
import { type RunningService, startService } from '../support/service.js';
import { askUnread, lengthOfRest } from '../support/slow-clients.js';

const CLIENTS = 6;
/**
 * The length of the upload's index line and of its answer, in bytes, but for some hundred. More than what the buffers of
 * a connection hold.
 */
const LINE_BYTES = 2 * MIB * '\\u0001'.length;
const FREE_BYTES = 16 * MIB;
const REQUEST_ID = 'of-long-lines';
/** Most of the memory budget, which the tests take so that shorter lines and fewer clients exceed the rest. */
const taken = answerMemory.hold('download');

describe('answers with long index lines from a bucket', () => {
  let bucket: InMemoryBucket;
  let service: RunningService;
  let upload: Upload;
  beforeAll(async () => {
    taken.tryGrow(answerMemory.bytes - FREE_BYTES);
    bucket = new InMemoryBucket();
    const storage = new ObjectStorageFileStorage({ bucket, logger: { warn: () => undefined } });
    service = await startService({ REQUEST_IDLE_TIMEOUT_MS: '60000' }, (builder) => builder.overrideProvider(FileStorage).useValue(storage));
    upload = await storeUpload(storage, anUploadDraft().with({ additionalData: '\u0001'.repeat(2 * MIB) }).build());
  });
  afterAll(() => {
    taken.release();
    return service.close();
  });

  /** Sends as many requests as there are clients, none of which reads its answer. Returns when most of them wait for memory. */
  async function begin(target: string): Promise<Socket[]> {
    const clients = await Promise.all(Array.from({ length: CLIENTS }, () => askUnread(service, target, REQUEST_ID)));
    await expect.poll(() => answerMemory.waitingCount, { timeout: 30_000 }).toBeGreaterThan(CLIENTS / 2);
    return clients;
  }

  it.each([
    ['of one upload', () => `/uploads/${upload.uploadId}`],
    ['of a list', () => '/uploads'],
  ])('%s share a memory budget, and are all sent once their clients read them', async (_, target) => {
    let most = 0;
    bucket.after = () => {
      most = Math.max(most, answerMemory.usedFor('answer'));
    };
    const clients = await begin(target());
    for (const bytes of await Promise.all(clients.map(lengthOfRest))) expect(bytes).toBeGreaterThan(LINE_BYTES);
    // One answer at a time may exceed the budget, by a line and its answer.
    expect(most).toBeLessThan(FREE_BYTES + 2 * LINE_BYTES + MIB);
    await expect.poll(() => answerMemory.usedFor('answer')).toBe(0);
  });

  it('give up their place in the queue when their clients hang up, which is no failure of the store', async () => {
    for (const client of await begin(`/uploads/${upload.uploadId}`)) client.resetAndDestroy();
    await expect.poll(() => answerMemory.usedFor('answer') + answerMemory.waitingCount, { timeout: 30_000 }).toBe(0);
    // Nest's logger also gets what services of other tests in this process still log.
    const failures = service.log.text.split('\n').filter((line) => line.includes(REQUEST_ID) && line.includes('storage-failure'));
    expect(failures).toEqual([]);
  });
});
