import { beforeEach, describe, expect, it } from 'vitest';
import { deferred } from '../../../../../../test/support/deferred.js';
import { ServiceError } from '../../../../../common/service-error.js';
import { uuidAt } from '../../../../../common/uuid.js';
import { InMemoryBucket } from '../../../../../testing/in-memory.bucket.js';
import type { LineMemory } from '../../../../application/ports/stored-uploads.port.js';
import { indexLine } from '../../../../domain/layout.js';
import type { Upload } from '../../../../domain/upload.js';
import { BucketUploads } from './bucket-uploads.js';

/** An InMemoryBucket yields pieces of this many bytes. */
const PIECE_BYTES = 64 * 1024;
const NOON = Date.parse('2026-03-10T12:00:00Z');

let bucket: InMemoryBucket;
let uploads: BucketUploads;
/** Counts up, so that each upload has a time of its own. */
let count: number;
beforeEach(() => {
  bucket = new InMemoryBucket();
  uploads = new BucketUploads(bucket);
  count = 0;
});

function anUpload(additionalData: string): Upload {
  const receivedAt = new Date(NOON + ++count);
  return { uploadId: uuidAt(receivedAt), kind: 'nowcast', customerId: 'customer-1', filename: 'load.csv', manufacturer: 'Acme', idempotencyKey: null, additionalData, receivedAt, content: null };
}

const lengthOf = (upload: Upload) => Buffer.byteLength(indexLine(upload));
const withLength = (bytes: number) => anUpload('x'.repeat(bytes - lengthOf(anUpload(''))));

/** Stores the lines of uploads in one segment, and returns its key. */
async function share(...lines: Upload[]): Promise<string> {
  const key = `uploads/kind=nowcast/date=2026-03-10/${uuidAt(lines[0]?.receivedAt ?? new Date())}.ndjson`;
  await bucket.create(key, Buffer.from(lines.map((upload) => `${indexLine(upload)}\n`).join('')));
  return key;
}

/** Notes what is taken and given back, and the segments that are opened meanwhile. */
function record() {
  const steps: string[] = [];
  const state = { steps, held: 0 };
  const memory: LineMemory = {
    take: (bytes) => {
      steps.push(`take ${bytes}`);
      state.held += bytes;
      return Promise.resolve();
    },
    giveBack: (bytes) => {
      state.held -= bytes;
    },
  };
  bucket.before = (operation, key) => {
    if (operation === 'open') steps.push(`open ${key}`);
  };
  return Object.assign(state, { memory });
}

describe('an upload in a segment with long lines', () => {
  it('is found by its own line, however long the lines are, even if other lines mention its id', async () => {
    const plain = [10, 65_000, PIECE_BYTES, 70_000, 200_000, 300_000].map((length) => anUpload('x'.repeat(length)));
    const mentioned = plain.map(({ uploadId }) => uploadId).join();
    const stored = [...plain, anUpload(mentioned), anUpload(`${mentioned}${'y'.repeat(100_000)}${mentioned}`)];
    await share(...stored.reverse());
    for (const upload of stored) expect(await uploads.find(upload.uploadId)).toEqual(upload);
  });

  it.each([0, 1, 14, 15, 32, 49, 50, 51])('is found if its line begins %i bytes before the end of a piece', async (bytes) => {
    for (const length of [1_000, PIECE_BYTES, PIECE_BYTES + 1, 3 * PIECE_BYTES]) {
      const wanted = withLength(length);
      await share(withLength(2 * PIECE_BYTES - bytes - 1), wanted, withLength(1_000));
      expect(await uploads.find(wanted.uploadId)).toEqual(wanted);
    }
  });
});

describe('a search', () => {
  it('takes memory for the line of the upload if it is long, before it reads the line, and for no other line', async () => {
    for (let others = 0; others < 3; others++) await share(withLength(500_000));
    const wanted = withLength(400_000);
    const key = await share(withLength(300_000), wanted);
    const { memory, steps } = record();
    expect(await uploads.find(wanted.uploadId, memory)).toEqual(wanted);
    expect(steps.filter((step) => step.startsWith('take'))).toEqual(['take 400000']);
    expect(steps.slice(-2)).toEqual(['take 400000', `open ${key}`]);
  });

  it('gives back the memory of the line if the search has failed before the line was read', async () => {
    const wanted = withLength(400_000);
    const [failing, key] = [await share(anUpload('')), await share(wanted)];
    const state = record();
    const [searched, read] = [deferred(), deferred()];
    let reads = 0;
    bucket.before = async (operation, of) => {
      if (operation === 'open' && of === key && ++reads === 2) {
        searched.resolve();
        await read.promise;
      }
      if (operation === 'open' && of === failing) {
        await searched.promise;
        throw new Error('of the bucket');
      }
    };
    const given = new Promise<void>((resolve) => {
      const giveBack = state.memory.giveBack.bind(state.memory);
      state.memory.giveBack = (bytes) => {
        giveBack(bytes);
        resolve();
      };
    });
    await expect(uploads.find(wanted.uploadId, state.memory)).rejects.toMatchObject({ kind: 'storage-failure' });
    read.resolve();
    await given;
    expect(state.held).toBe(0);
  });

  it('takes memory once if compaction has copied the line', async () => {
    const wanted = withLength(400_000);
    for (let segments = 0; segments < 3; segments++) await share(anUpload(''), wanted);
    const state = record();
    expect(await uploads.find(wanted.uploadId, state.memory)).toEqual(wanted);
    expect(state.held).toBe(400_000);
  });

  it('takes no memory for a line of 64 KiB', async () => {
    const wanted = withLength(64 * 1024);
    await share(wanted);
    const state = record();
    expect(await uploads.find(wanted.uploadId, state.memory)).toEqual(wanted);
    expect(state.steps.filter((step) => step.startsWith('take'))).toEqual([]);
  });

  it.each(['find', 'list'] as const)("rejects with the memory's error if the client has gone (%s)", async (method) => {
    const wanted = withLength(400_000);
    await share(wanted);
    const gone = new ServiceError('client-aborted', 'The client disconnected.');
    const memory: LineMemory = { take: () => Promise.reject(gone), giveBack: () => undefined };
    await expect(method === 'find' ? uploads.find(wanted.uploadId, memory) : uploads.list({}, 10, undefined, memory)).rejects.toBe(gone);
  });
});

describe('a list', () => {
  it('takes memory for the segments before it reads them, and keeps that of the lines of the page', async () => {
    const keys = [await share(withLength(400_000)), await share(withLength(1_000))];
    const state = record();
    expect((await uploads.list({}, 10, undefined, state.memory)).uploads).toHaveLength(2);
    const firstRead = state.steps.findIndex((step) => keys.some((key) => step === `open ${key}`));
    expect(state.steps.slice(0, firstRead)).toContain('take 401002');
    expect(state.held).toBeGreaterThanOrEqual(401_000);
    expect(state.held).toBeLessThan(402_000);
  });

  it('gives the memory for segments back if the page has only short lines', async () => {
    await share(withLength(400_000), withLength(1_000));
    const state = record();
    expect((await uploads.list({}, 1, undefined, state.memory)).uploads).toHaveLength(1);
    expect(state.steps).toContain('take 401002');
    expect(state.held).toBe(0);
  });
});
