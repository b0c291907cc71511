import { AsyncResource } from 'node:async_hooks';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { countRequests } from '../../../../../../test/support/counted-requests.js';
import { HOUR_MS, MINUTE_MS } from '../../../../../common/durations.js';
import { uuidAt } from '../../../../../common/uuid.js';
import { BucketView } from '../../../../../testing/bucket.view.js';
import { InMemoryBucket } from '../../../../../testing/in-memory.bucket.js';
import { anUploadDraft, storeUpload, type UploadDraftBuilder } from '../../../../../testing/upload-draft.builder.js';
import type { EventOutbox, OutboxEvent } from '../../../../application/ports/event-outbox.port.js';
import { indexLine } from '../../../../domain/layout.js';
import type { StoredContent } from '../../../../application/ports/file-storage.port.js';
import type { Upload } from '../../../../domain/upload.js';
import { beginCall } from '../begin-call.js';
import { StoreSilentError } from '../bucket.js';
import { compactDay } from '../compaction.js';
import { claimKey } from '../keys.js';
import { ObjectStorageFileStorage } from '../object-storage.file-storage.adapter.js';
import { segmentOf } from '../segment-names.js';
import { BucketUploads } from '../stored-uploads/bucket-uploads.js';
import { verifyBucket } from '../store-verification/bucket-view.js';
import { Sweeper } from '../sweeper.js';
import { BucketEventOutbox } from './bucket-event-outbox.js';

const SECOND_MS = 1_000;
const DATE = '2026-03-10';
const NOON = Date.parse(`${DATE}T12:00:00Z`);
const MIDNIGHT = Date.parse(`${DATE}T24:00:00Z`);
const logger = { warn: () => undefined };

let bucket: InMemoryBucket;
let open: { close(): Promise<void> }[];
beforeEach(() => {
  vi.useFakeTimers({ toFake: ['Date'], now: NOON });
  bucket = new InMemoryBucket();
  open = [];
});
afterEach(async () => {
  await Promise.all(open.map((each) => each.close()));
  vi.useRealTimers();
});

const pass = (ms: number) => vi.setSystemTime(Date.now() + ms);

function storageOn(on: InMemoryBucket = bucket.another()): ObjectStorageFileStorage {
  const storage = new ObjectStorageFileStorage({ bucket: on, logger });
  open.push(storage);
  return storage;
}

/** The event outbox of another process on the same bucket. */
function outboxOn(on: InMemoryBucket = bucket.another()): BucketEventOutbox {
  const outbox = new BucketEventOutbox(on, logger, 0);
  open.push(outbox);
  return outbox;
}

/** The event outbox of a process that will crash, so it is never closed. */
const mortalOutboxOn = (on: InMemoryBucket): BucketEventOutbox => new BucketEventOutbox(on, logger, 0);

async function begin(): Promise<BucketEventOutbox> {
  const outbox = outboxOn();
  await outbox.open();
  return outbox;
}

const idOf = (event: OutboxEvent) => (event.type === 'stored' ? event.upload.uploadId : `${event.uploadId}-removed`);

/**
 * Takes and confirms all waiting events. Returns the ids of their uploads in order; the id of a removal's event ends
 * with `-removed`.
 */
async function deliver(outbox: EventOutbox, limit = 500): Promise<string[]> {
  const ids: string[] = [];
  for (;;) {
    const batch = await outbox.next(limit);
    if (!batch) return ids;
    expect(batch.events.length).toBeLessThanOrEqual(limit);
    ids.push(...batch.events.map(idOf));
    await batch.confirm();
  }
}

const store = (storage: ObjectStorageFileStorage, draft: UploadDraftBuilder = anUploadDraft().with({ receivedAt: new Date() })) => storeUpload(storage, draft.build());

/** Stores an upload with a file that is complete `ms` milliseconds after the upload began. */
async function storeSlow(storage: ObjectStorageFileStorage, ms: number): Promise<Upload> {
  const draft = anUploadDraft().with({ receivedAt: new Date() }).file('bytes').build();
  return storeUpload(storage, {
    ...draft,
    conclude: async (stored) => {
      pass(ms);
      return { ...(await draft.conclude(stored)), receivedAt: new Date() };
    },
  });
}

/** Stores an upload of each sort, one of them slow (over 10 s). Returns their ids. */
async function storeEach(storage: ObjectStorageFileStorage): Promise<string[]> {
  const draft = anUploadDraft().with({ receivedAt: new Date() });
  const uploads: Upload[] = [];
  for (const each of [draft, draft.file('bytes'), draft.with({ idempotencyKey: uuidAt(new Date()) }), draft.with({ kind: 'nowcast' })]) {
    uploads.push(await store(storage, each));
  }
  uploads.push(await storeSlow(storage, 15 * SECOND_MS));
  return uploads.map(({ uploadId }) => uploadId);
}

const sorted = (ids: readonly string[]) => [...ids].sort();
const linesOf = (uploads: readonly Upload[]) => Buffer.from(uploads.map((upload) => `${indexLine(upload)}\n`).join(''));

/**
 * Writes `count` uploads without a file to one segment, which these uploads share. Returns the segment's key, the
 * uploads and their ids.
 */
async function share(count: number, on: InMemoryBucket = bucket.another(), at = Date.now()): Promise<{ key: string; ids: string[]; uploads: Upload[] }> {
  const uploads = await Promise.all(Array.from({ length: count }, (_, index) => anUploadDraft().with({ receivedAt: new Date(at + index), customerId: `customer-${index % 2}` }).build().conclude(null)));
  const key = segmentOf({ kind: 'historical', receivedAt: new Date(at), uploadId: uuidAt(new Date(at)) });
  await on.create(key, linesOf(uploads));
  return { key, uploads, ids: uploads.map(({ uploadId }) => uploadId) };
}

describe('the outbox of a bucket', () => {
  it('delivers each upload once, whatever its sort and age', async () => {
    const storage = storageOn();
    await storeEach(storage);
    const outbox = await begin();
    expect(await deliver(outbox)).toEqual([]);
    const delivered: string[] = [];
    const stored: string[] = [];
    for (const wait of [0, SECOND_MS, 30 * SECOND_MS, 2 * MINUTE_MS, 20 * MINUTE_MS, 7 * HOUR_MS]) {
      pass(wait);
      stored.push(...(await storeEach(storage)));
      delivered.push(...(await deliver(outbox, 2)));
      expect(sorted(delivered)).toEqual(sorted(stored));
    }
  });

  it('is known to any process once one has opened it', async () => {
    expect(await outboxOn().hasBegun()).toBe(false);
    await begin();
    expect(await outboxOn().hasBegun()).toBe(true);
  });

  it('delivers what was stored while no process delivered events, even after days', async () => {
    const storage = storageOn();
    await (await begin()).close();
    const stored = await storeEach(storage);
    pass(MINUTE_MS);
    stored.push(...(await storeEach(storage)));
    pass(50 * HOUR_MS);
    stored.push(...(await storeEach(storage)));
    expect(sorted(await deliver(outboxOn()))).toEqual(sorted(stored));
  });

  it('needs no request more for an upload, and at most three listings and no other request while nothing is stored', async () => {
    const on = bucket.another();
    const operations: string[] = [];
    const outbox = outboxOn(on);
    await outbox.open();
    await deliver(outbox);
    const other = bucket.another();
    on.before = (operation, key) => void operations.push(`${operation} ${key}`);
    pass(10 * SECOND_MS);
    expect(await outbox.next(500)).toBeUndefined();
    expect(operations.filter((each) => each.startsWith('list uploads/'))).toHaveLength(2);
    expect(operations.filter((each) => !each.startsWith('list uploads/'))).toEqual(['list events/']);

    const storage = storageOn(other);
    // An upload under an idempotency key waits until the storage has compared the claims.
    await storage.store(anUploadDraft().with({ idempotencyKey: 'key' }).build());
    operations.length = 0;
    other.before = on.before;
    await store(storage);
    expect(operations).toHaveLength(1);
  });

  it('counts only confirmed events as delivered: a batch that was not confirmed comes again', async () => {
    const outbox = await begin();
    const { ids } = await share(5);
    expect((await outbox.next(3))?.events.map(idOf)).toEqual(ids.slice(0, 3));
    expect((await outbox.next(3))?.events.map(idOf)).toEqual(ids.slice(0, 3));
    await (await outbox.next(2))?.confirm();
    expect((await outbox.next(9))?.events.map(idOf)).toEqual(ids.slice(2));
  });

  it('is left to another process at once, even while it reads from a store that does not answer', async () => {
    const on = bucket.another();
    const outbox = outboxOn(on);
    await outbox.open();
    expect(await outbox.next(9)).toBeUndefined();
    const { ids } = await share(3);
    pass(10 * SECOND_MS);
    const answers: (() => void)[] = [];
    const asked = new Promise<void>((resolve) => {
      on.before = (operation) => {
        if (operation !== 'list') return undefined;
        resolve();
        return new Promise((answer) => answers.push(answer));
      };
    });
    const reading = outbox.next(9);
    await asked;
    await outbox.close();
    expect(await deliver(outboxOn())).toEqual(ids);
    on.before = () => undefined;
    for (const answer of answers) answer();
    await reading;
  });

  it('lists a store with many segments a part at a time', async () => {
    const outbox = await begin();
    const stored: string[] = [];
    const on = bucket.another();
    for (let at = 0; at < 6_500; at++) {
      if (at % 40 === 0) pass(SECOND_MS);
      const upload = await anUploadDraft().with({ receivedAt: new Date() }).build().conclude(null);
      await on.create(segmentOf(upload), linesOf([upload]));
      stored.push(upload.uploadId);
    }
    pass(10 * MINUTE_MS);
    expect(await deliver(outbox)).toEqual(stored);
    pass(10 * MINUTE_MS);
    expect(await deliver(outbox)).toEqual([]);
  });

  it('delivers the events of a day with a damaged compaction plan after ten minutes', async () => {
    const outbox = await begin();
    vi.setSystemTime(MIDNIGHT - 30 * MINUTE_MS);
    const { ids } = await share(2);
    await bucket.create(`compaction/kind=historical/date=${DATE}`, Buffer.from('damaged'));
    await expect(outbox.next(9)).rejects.toMatchObject({ kind: 'storage-failure' });
    pass(10 * MINUTE_MS);
    expect(await deliver(outbox)).toEqual(ids);
  });

  it.each([
    ['', (outbox: BucketEventOutbox) => Promise.resolve(outbox)],
    [', and another process delivers from then on', (outbox: BucketEventOutbox) => outbox.close().then(() => outboxOn())],
  ])('continues in a segment after its last confirmed line that is left, when removals rewrite it%s', async (_, next) => {
    const outbox = await begin();
    const { ids } = await share(8);
    await (await outbox.next(4))?.confirm();
    const after = await next(outbox);
    const uploads = new BucketUploads(bucket.another());
    for (const index of [3, 5, 1]) await uploads.remove(ids[index] ?? '');
    const delivered = await deliver(after, 1);
    expect(delivered.slice(0, 3)).toEqual([ids[4], ids[6], ids[7]]);
    expect(sorted(delivered.slice(3))).toEqual(sorted([3, 5, 1].map((index) => `${ids[index]}-removed`)));
  });

  it('delivers no event again after a restart, when half of the uploads are removed from a segment that is being delivered', async () => {
    const outbox = await begin();
    const { ids } = await share(400);
    for (let at = 0; at < 3; at++) await (await outbox.next(101))?.confirm();
    await outbox.close();
    // The last confirmed upload is the customer's.
    await new BucketUploads(bucket.another()).removeAll({ customerId: 'customer-0' });
    const delivered = (await deliver(outboxOn())).filter((id) => !id.endsWith('-removed'));
    const left = ids.filter((_, index) => index % 2 === 1);
    expect(delivered).toEqual(left.slice(-49));
  });

  it('delivers uploads around midnight once', async () => {
    vi.setSystemTime(MIDNIGHT - 30 * SECOND_MS);
    const storage = storageOn();
    const outbox = await begin();
    const stored: string[] = [];
    const delivered: string[] = [];
    for (let at = 0; at < 12; at++) {
      pass(5 * SECOND_MS);
      stored.push(...(await storeEach(storage)));
      delivered.push(...(await deliver(outbox)));
    }
    expect(sorted(delivered)).toEqual(sorted(stored));
  });

  it('says what to do about a damaged cursor', async () => {
    await begin().then((outbox) => outbox.close());
    await bucket.another().replace('events/cursor', Buffer.from('{}'));
    const message = 'events/cursor is damaged, so no events are delivered. Restore it, or remove it and restart the service: then only events from that time on are delivered.';
    await expect(outboxOn().next(1)).rejects.toMatchObject({ kind: 'storage-failure', cause: { message } });
  });
});

describe('segments that are not found by their names', () => {
  it.each([
    ['a PUT that the store carries out after two minutes', 2 * MINUTE_MS],
    ['a PUT that takes 50 s', 50 * SECOND_MS],
    ['a process that stalls for three hours', 3 * HOUR_MS],
  ])('are delivered once: %s', async (_, ms) => {
    const outbox = await begin();
    const on = bucket.another();
    const storage = storageOn(on);
    const delivered: string[] = [];
    on.before = async (operation, key) => {
      if (operation !== 'create' || !key.startsWith('uploads/')) return;
      on.before = () => undefined;
      for (let step = 0; step < 4; step++) {
        pass(ms / 4);
        delivered.push(...(await deliver(outbox)));
      }
    };
    const stored = [await store(storage), await store(storage, anUploadDraft().with({ receivedAt: new Date() }).file('x'))].map(({ uploadId }) => uploadId);
    for (const wait of [0, MINUTE_MS, 10 * MINUTE_MS]) {
      pass(wait);
      delivered.push(...(await deliver(outbox)));
    }
    expect(sorted(delivered)).toEqual(sorted(stored));
    expect(bucket.keys.filter((key) => key.startsWith('events/'))).toEqual(['events/cursor']);
  });

  it.each([-200, -30, -15, 15, 50, 200])('are delivered once if the clock of their process is off by %s s', async (seconds) => {
    const outbox = await begin();
    const delivered: string[] = [];
    const stored: string[] = [];
    const on = bucket.another();
    const storage = storageOn(on);
    for (let at = 0; at < 30; at++) {
      // This machine's clock is off by `seconds` while the process stores, but the store's clock is right. So the times
      // in the segments' names are off too.
      const now = Date.now();
      on.aheadMs = -seconds * SECOND_MS;
      vi.setSystemTime(now + seconds * SECOND_MS);
      const began = new Date(Date.now() - (at % 3) * 4_400);
      const draft = anUploadDraft().with({ receivedAt: began }).build();
      const slower = { ...draft, conclude: async (content: StoredContent | null) => ({ ...(await draft.conclude(content)), receivedAt: new Date() }) };
      stored.push(...(await Promise.all([store(storage), store(storage, anUploadDraft().with({ receivedAt: new Date() }).file('x')), storage.store(slower)])).map(({ uploadId }) => uploadId));
      vi.setSystemTime(now + 12 * SECOND_MS);
      delivered.push(...(await deliver(outbox)));
    }
    pass(6 * MINUTE_MS);
    delivered.push(...(await deliver(outbox)));
    expect(sorted(delivered)).toEqual(sorted(stored));
  });

  it.each([
    ['', false],
    [', although its claim is damaged', true],
  ])('are delivered if their process crashed before it announced them, and the request is repeated%s', async (_, isDamaged) => {
    const outbox = await begin();
    const on = bucket.another();
    on.before = async (operation, key) => {
      if (operation === 'create' && key.startsWith('uploads/')) {
        pass(2 * MINUTE_MS);
        await deliver(outbox);
      }
      if (key.startsWith('events/late/')) throw new Error('lost');
      if (operation === 'replace' || operation === 'remove') throw new Error('lost');
    };
    const draft = anUploadDraft().with({ receivedAt: new Date(), idempotencyKey: 'key' });
    const first = draft.build();
    const crashed = new ObjectStorageFileStorage({ bucket: on, logger });
    await expect(crashed.store(first)).rejects.toThrow();
    expect(await deliver(outbox)).toEqual([]);
    if (isDamaged) await bucket.another().replace(claimKey(first.idempotencyScope ?? ''), Buffer.from('damaged'));
    expect(await storageOn().store(draft.build())).toMatchObject({ uploadId: first.uploadId, replayed: true });
    expect(await deliver(outbox)).toEqual([first.uploadId]);
  });

  it('are delivered if their PUT was carried out after it had failed, a sweeper kept the upload, and the request is repeated', async () => {
    const outbox = await begin();
    const on = bucket.another();
    on.before = async (operation, key, bytes) => {
      if (operation !== 'create' || !key.startsWith('uploads/')) return;
      on.before = () => undefined;
      pass(2 * MINUTE_MS);
      expect(await deliver(outbox)).toEqual([]);
      await bucket.another().create(key, bytes ?? Buffer.alloc(0));
      await new Sweeper(bucket.another(), logger).sweep();
      throw new StoreSilentError(1);
    };
    const draft = () => anUploadDraft().with({ receivedAt: new Date(), idempotencyKey: 'key' }).file('the bytes');
    const first = draft().build();
    const storage = new ObjectStorageFileStorage({ bucket: on, logger });
    await expect(storage.store(first)).rejects.toMatchObject({ kind: 'storage-failure' });
    await storage.close();
    expect(await storageOn().store(draft().build())).toMatchObject({ uploadId: first.uploadId, replayed: true });
    expect(await deliver(outbox)).toEqual([first.uploadId]);
  });

  it.each([20, -20])('are delivered once if the time in any answer to the delivering process is %i minutes off', async (minutes) => {
    for (let at = 0, last = 1; at <= last; at++) {
      vi.useFakeTimers({ toFake: ['Date', 'performance'], now: NOON });
      bucket = new InMemoryBucket();
      const on = bucket.another();
      let operations = 0;
      on.before = () => void (on.aheadMs = operations++ === at ? minutes * MINUTE_MS : 0);
      const outbox = outboxOn(on);
      await outbox.open();
      const delivered: string[] = [];
      const stored: string[] = [];
      // Announces a late segment. The loop below creates this segment only later.
      const late = await share(1, new InMemoryBucket(), NOON - 2 * MINUTE_MS);
      await bucket.create(`events/late/${uuidAt(new Date())}`, Buffer.from(JSON.stringify({ segment: late.key, upload_ids: late.ids })));
      stored.push(...late.ids);
      for (const seconds of [1, 5, 5, 90, 300, 300]) {
        if (seconds === 90) await bucket.create(late.key, linesOf(late.uploads));
        if (stored.length < 10) stored.push(...(await share(2)).ids);
        delivered.push(...(await deliver(outbox)));
        vi.advanceTimersByTime(seconds * SECOND_MS);
      }
      delivered.push(...(await deliver(outbox)));
      expect(sorted(delivered)).toEqual(sorted(stored));
      last = operations;
      await Promise.all(open.splice(0).map((each) => each.close()));
    }
  });

  it('are delivered once even if they are announced and then found by their names too', async () => {
    const outbox = await begin();
    const on = bucket.another();
    const storage = storageOn(on);
    const delivered: string[] = [];
    on.after = async (operation, key) => {
      if (operation === 'create') delivered.push(...(await deliver(outbox, 1)));
      if (operation === 'create' && key.startsWith('files/')) pass(25 * SECOND_MS);
    };
    const { uploadId } = await storeUpload(storage, anUploadDraft().with({ receivedAt: new Date(Date.now() - 25 * SECOND_MS) }).build());
    delivered.push(...(await deliver(outbox)));
    pass(10 * MINUTE_MS);
    delivered.push(...(await deliver(outbox)));
    expect(delivered).toEqual([uploadId]);
  });

  it('are not announced if the outbox was never opened', async () => {
    const storage = storageOn();
    await storeSlow(storage, MINUTE_MS);
    expect(bucket.keys.filter((key) => key.startsWith('events/'))).toEqual([]);
  });

  it('are forgotten if they never appear', async () => {
    const outbox = await begin();
    await bucket.another().create(`events/late/${uuidAt(new Date())}`, Buffer.from(JSON.stringify({ segment: 'uploads/kind=nowcast/date=2026-03-10/x.ndjson', upload_ids: [uuidAt(new Date())] })));
    expect(await deliver(outbox)).toEqual([]);
    expect(bucket.keys.filter((key) => key.startsWith('events/late/'))).toHaveLength(1);
    pass(16 * MINUTE_MS);
    expect(await deliver(outbox)).toEqual([]);
    await outbox.close();
    expect(bucket.keys.filter((key) => key.startsWith('events/late/'))).toEqual([]);
  });
});

describe('many objects', () => {
  /**
   * Counts a process's operations of one sort on the bucket: `most` is the largest number at the same time, `all` the
   * total.
   */
  function countAtOnce(on: InMemoryBucket, counted: 'read' | 'open'): { most: number; all: number } {
    const reads = { most: 0, all: 0 };
    let now = 0;
    on.before = (operation) => {
      if (operation !== counted) return;
      reads.all += 1;
      reads.most = Math.max(reads.most, ++now);
    };
    on.after = (operation) => {
      if (operation === counted) now--;
    };
    return reads;
  }

  it('with removals are read some at once', async () => {
    await begin().then((outbox) => outbox.close());
    const { ids } = await share(40);
    const uploads = new BucketUploads(bucket.another());
    for (const id of ids) {
      pass(1);
      await uploads.remove(id);
    }
    const on = bucket.another();
    const reads = countAtOnce(on, 'read');
    expect(await deliver(outboxOn(on))).toEqual(ids.map((id) => `${id}-removed`));
    expect(reads.most).toBe(40);
  });

  it('with announcements, and their segments, are read some at once', async () => {
    await begin().then((outbox) => outbox.close());
    const on = bucket.another();
    const stored: string[] = [];
    for (let at = 0; at < 40; at++) {
      const { key, ids } = await share(1, bucket.another(), Date.now() - 5 * MINUTE_MS);
      pass(1);
      await bucket.another().create(`events/late/${uuidAt(new Date())}`, Buffer.from(JSON.stringify({ segment: key, upload_ids: ids })));
      stored.push(...ids);
    }
    const announcements = countAtOnce(on, 'read');
    const outbox = outboxOn(on);
    const batch = await outbox.next(30);
    expect(announcements.most).toBe(16);
    await batch?.confirm();
    const segments = countAtOnce(on, 'open');
    expect([...(batch?.events ?? []).map(idOf), ...(await deliver(outbox))]).toEqual(stored);
    expect(segments.most).toBe(10);
  });

  it('that have many events each are read only as far as a batch has room', async () => {
    await begin().then((outbox) => outbox.close());
    for (let at = 0; at < 5; at++) {
      const { key, ids } = await share(10, bucket.another(), Date.now() - 5 * MINUTE_MS);
      pass(1);
      await bucket.another().create(`events/late/${uuidAt(new Date())}`, Buffer.from(JSON.stringify({ segment: key, upload_ids: ids })));
    }
    const on = bucket.another();
    const segments = countAtOnce(on, 'open');
    const outbox = outboxOn(on);
    expect((await outbox.next(10))?.events).toHaveLength(10);
    expect(segments.all).toBe(1);
    expect((await outbox.next(15))?.events).toHaveLength(15);
    expect(segments.most).toBe(1);
  });

  /** Stores uploads as those with files are: each has a segment of its own. Returns their ids. */
  async function storeEachAlone(count: number, additionalData: string | null = null): Promise<string[]> {
    const ids: string[] = [];
    for (let at = 0; at < count; at++) {
      pass(1);
      const upload = await anUploadDraft().with({ receivedAt: new Date(), additionalData }).build().conclude(null);
      await bucket.create(segmentOf(upload), linesOf([upload]));
      ids.push(upload.uploadId);
    }
    return ids;
  }

  it('with one event each need few requests one after the other', async () => {
    const on = bucket.another();
    const outbox = outboxOn(on);
    await outbox.open();
    const ids = await storeEachAlone(1_000);
    pass(MINUTE_MS);
    const first = await outbox.next(500);
    const count = countRequests(on);
    await first?.confirm();
    const second = await outbox.next(500);
    expect([first, second].flatMap((batch) => batch?.events.map(idOf))).toEqual(ids);
    // The cursor is written, and the segments are read in two rounds. Listings are rare, and due by the time that has
    // really passed.
    expect(count.requests - count.listings).toBe(501);
    expect(count.rounds - count.listings).toBeLessThanOrEqual(3);
  });

  it('with one event each are read as a job, so that a call of an upload soon begins', async () => {
    const on = bucket.another();
    const outbox = outboxOn(on);
    await outbox.open();
    await storeEachAlone(200);
    pass(MINUTE_MS);
    const count = { asked: 0, begun: 0, before: Infinity };
    const beginOther = AsyncResource.bind(async () => {
      await beginCall();
      count.before = count.begun;
    });
    on.before = async (operation) => {
      if (operation !== 'open') return;
      count.asked += 1;
      if (count.asked === 200) void beginOther();
      await beginCall();
      count.begun += 1;
    };
    expect((await outbox.next(500))?.events).toHaveLength(200);
    expect(count.before).toBeLessThan(20);
  });

  it('with one long line each are read only as far as the batch has room for their bytes', async () => {
    await begin().then((outbox) => outbox.close());
    const ids = await storeEachAlone(12, 'x'.repeat(60_000));
    const on = bucket.another();
    const reads = countAtOnce(on, 'open');
    expect(await deliver(outboxOn(on))).toEqual(ids);
    expect(reads.most).toBe(4);
    expect(reads.all).toBeLessThanOrEqual(15);
  });

  /** Counts the object names that a process gets from listings of the bucket. */
  function countNames(on: InMemoryBucket): { count: number } {
    const names = { count: 0 };
    on.listed = (objects) => {
      const counted = [...objects];
      counted[Symbol.iterator] = function* () {
        for (const object of objects) {
          names.count += 1;
          yield object;
        }
        return undefined;
      };
      return counted;
    };
    return names;
  }

  async function storeAlone(count: number, begin: number, lastingMs: number): Promise<void> {
    for (let index = 0; index < count; index++) {
      const at = begin + Math.floor((index * lastingMs) / count);
      await bucket.create(segmentOf({ kind: 'historical', receivedAt: new Date(at), uploadId: uuidAt(new Date(at)) }), Buffer.from('{}\n'));
    }
  }

  it('wait in the bucket: at most about 5,000 segments are listed before some are confirmed', async () => {
    const on = bucket.another();
    const outbox = outboxOn(on);
    await outbox.open();
    await storeAlone(6_500, NOON, 30 * SECOND_MS);
    await share(1, bucket.another(), NOON);
    pass(30 * SECOND_MS);
    const names = countNames(on);
    await outbox.next(1);
    expect(names.count).toBeGreaterThan(5_000);
    expect(names.count).toBeLessThan(5_100);
  });

  it('of the same millisecond are delivered, even if they are more than are listed at once', async () => {
    const outbox = await begin();
    await storeAlone(5_500, NOON + SECOND_MS, 0);
    pass(SECOND_MS);
    const { ids } = await share(1);
    pass(MINUTE_MS);
    expect(await deliver(outbox)).toEqual(ids);
  });

  it('of the last seconds that are confirmed do not keep others from being delivered, however many they are', async () => {
    await storeAlone(11_000, NOON - 3 * SECOND_MS, 3 * SECOND_MS);
    const outbox = await begin();
    const { ids } = await share(1);
    expect(await deliver(outbox)).toEqual(ids);
  });

  it('that are confirmed are rarely listed again, and few requests are needed again when uploads are few', async () => {
    // The clock is set to a fixed distance from a multiple of the longest span of time that one listing covers, so that
    // the number of requests doesn't depend on where a span begins.
    const MAX_UNIT_MS = 16 ** 5;
    vi.setSystemTime(Math.ceil(NOON / MAX_UNIT_MS) * MAX_UNIT_MS - 2 * MINUTE_MS);
    const on = bucket.another();
    await storeAlone(15_000, Date.now() - 15 * MINUTE_MS, 15 * MINUTE_MS);
    const outbox = outboxOn(on);
    await outbox.open();
    await deliver(outbox);
    const names = countNames(on);
    let listings = 0;
    on.before = (operation) => void (listings += operation === 'list' ? 1 : 0);
    for (let at = 0; at < 4; at++) {
      pass(5 * SECOND_MS);
      names.count = 0;
      expect(await deliver(outbox)).toEqual([]);
      expect(names.count).toBeLessThan(2_500);
    }
    pass(4 * MAX_UNIT_MS);
    for (let at = 0; at < 3; at++) await deliver(outbox);
    listings = 0;
    await deliver(outbox);
    expect(listings).toBe(3);
  });
});

describe('several processes that deliver events', () => {
  it('take turns: another one delivers when the first has closed its outbox, and nothing is delivered twice', async () => {
    const storage = storageOn();
    const first = await begin();
    const delivered: string[] = [];
    const stored: string[] = [];
    let holder = first;
    for (let at = 0; at < 6; at++) {
      stored.push(...(await storeEach(storage)));
      const other = outboxOn();
      await holder.next(500);
      expect(await other.next(500)).toBeUndefined();
      const batch = await holder.next(3);
      delivered.push(...(batch?.events ?? []).map(idOf));
      await batch?.confirm();
      await holder.close();
      pass(5 * SECOND_MS);
      holder = other;
      delivered.push(...(await deliver(holder)));
    }
    expect(sorted(delivered)).toEqual(sorted(stored));
  });

  it('take over within a minute when the delivering process has crashed', async () => {
    const storage = storageOn();
    await begin().then((outbox) => outbox.close());
    await mortalOutboxOn(bucket.another()).next(1);
    const stored = await storeEach(storage);
    const other = outboxOn();
    const delivered: string[] = [];
    const began = Date.now();
    while (delivered.length === 0) {
      pass(5 * SECOND_MS);
      delivered.push(...(await deliver(other)));
    }
    expect(Date.now() - began).toBeLessThanOrEqual(MINUTE_MS);
    expect(sorted(delivered)).toEqual(sorted(stored));
  });

  it('confirm nothing after they stalled and another took over', async () => {
    const storage = storageOn();
    const first = await begin();
    const { ids } = await share(4);
    const batch = await first.next(2);
    pass(50 * SECOND_MS);
    const other = outboxOn();
    expect(await deliver(other, 1)).toEqual(ids);
    await batch?.confirm();
    const { uploadId } = await store(storage);
    expect(await first.next(9)).toBeUndefined();
    expect(await deliver(other)).toEqual([uploadId]);
  });

  /**
   * Delivers events with a process that crashes before or after its operation `at` on the bucket. Another process then
   * delivers the rest. Returns the upload ids whose events either process has delivered, and the number of operations
   * of the first.
   */
  async function crashAt(at: number, moment: 'before' | 'after'): Promise<{ delivered: Set<string>; operations: number }> {
    const delivered = new Set<string>();
    const on = bucket.another();
    let operations = 0;
    on[moment] = () => {
      if (operations++ < at) return;
      on.before = () => {
        throw new Error('crashed');
      };
      throw new Error('crashed');
    };
    const holder = mortalOutboxOn(on);
    try {
      for (;;) {
        const batch = await holder.next(2);
        if (!batch) break;
        for (const event of batch.events) delivered.add(idOf(event));
        await batch.confirm();
      }
    } catch (error) {
      expect(String((error as Error).cause)).toContain('crashed');
    }
    on.before = () => {
      throw new Error('crashed');
    };
    pass(50 * SECOND_MS);
    for (const id of await deliver(outboxOn())) delivered.add(id);
    return { delivered, operations };
  }

  it.each(['before', 'after'] as const)('leave nothing out wherever one crashes %s a request', async (moment) => {
    const storage = storageOn();
    await begin().then((outbox) => outbox.close());
    const stored = await storeEach(storage);
    const removed = await store(storage);
    await new BucketUploads(bucket.another()).remove(removed.uploadId);
    await share(5).then(({ ids }) => stored.push(...ids));
    const whole = bucket;
    const began = Date.now();
    let last = 1;
    for (let at = 0; at <= last; at++) {
      bucket = whole.copy();
      vi.setSystemTime(began);
      const { delivered, operations } = await crashAt(at, moment);
      expect(sorted([...delivered])).toEqual(sorted([...stored, `${removed.uploadId}-removed`]));
      last = operations;
      await Promise.all(open.splice(0).map((each) => each.close()));
    }
    expect(last).toBeGreaterThan(10);
  });
});

describe('a day that is compacted', () => {
  /**
   * Writes segments that are old enough to be compacted: for each of the given hours of the day, one that three uploads
   * share and one of a single upload. Returns the uploads' ids.
   */
  async function storeDay(hours: readonly number[]): Promise<string[]> {
    const ids: string[] = [];
    for (const hour of hours) {
      const at = Date.parse(DATE) + hour * HOUR_MS;
      const on = bucket.another();
      on.aheadMs = at - Date.now();
      ids.push(...(await share(3, on, at)).ids);
      const alone = await anUploadDraft().with({ receivedAt: new Date(at + 1) }).build().conclude(null);
      await on.create(segmentOf(alone), linesOf([alone]));
      ids.push(alone.uploadId);
    }
    return ids;
  }
  const compact = (on = bucket.another()) => compactDay(on, 'historical', DATE);

  it('is delivered from its large segments if nothing of it was delivered before', async () => {
    vi.setSystemTime(Date.parse(DATE) - 30 * HOUR_MS);
    await begin().then((outbox) => outbox.close());
    vi.setSystemTime(MIDNIGHT + 26 * HOUR_MS);
    const stored = await storeDay([0, 1, 7, 23.99]);
    expect(await compact()).toMatchObject({ targets: 1 });
    const outbox = outboxOn();
    expect(sorted(await deliver(outbox, 3))).toEqual(sorted(stored));
    pass(HOUR_MS);
    expect(await deliver(outbox)).toEqual([]);
  });

  it('is left alone while only part of it is confirmed, and compacted afterwards', async () => {
    vi.setSystemTime(Date.parse(DATE) + HOUR_MS);
    await begin().then((outbox) => outbox.close());
    vi.setSystemTime(MIDNIGHT + 26 * HOUR_MS);
    const stored = await storeDay([2, 3, 22]);
    expect(await compact()).toMatchObject({ sources: 0, isBusy: false });
    const outbox = outboxOn();
    expect(sorted(await deliver(outbox, 3))).toEqual(sorted(stored));
    await outbox.close();
    expect(await compact()).toMatchObject({ sources: 6, targets: 1 });
    expect(await deliver(outboxOn())).toEqual([]);
  });

  const stalls = [false, true].flatMap((isGone) => Array.from({ length: 40 }, (_, at) => [at, isGone] as const));
  it.each(stalls)('is delivered once if compaction stalls at its operation %i while delivery reaches the day (and has ended again: %s)', async (at, isGone) => {
    vi.setSystemTime(Date.parse(DATE) - 30 * HOUR_MS);
    await begin().then((outbox) => outbox.close());
    vi.setSystemTime(MIDNIGHT + 26 * HOUR_MS);
    const stored = await storeDay([0, 1, 7, 23]);
    // After a plan or hold, an empty object is left. It has the same version each time.
    await bucket.create(`compaction/kind=historical/date=${DATE}`, Buffer.alloc(0));
    const stalled = bucket.another();
    let count = 0;
    let goOn = (): void => undefined;
    const gate = new Promise<void>((resolve) => (goOn = resolve));
    let stop = (): void => undefined;
    const stopped = new Promise<void>((resolve) => (stop = resolve));
    stalled.before = () => {
      if (count++ !== at) return;
      stop();
      return gate;
    };
    const compacting = compact(stalled).catch(() => undefined);
    await Promise.race([stopped, compacting]);
    const outbox = outboxOn();
    const delivered: string[] = [];
    const first = await outbox.next(5);
    delivered.push(...(first?.events ?? []).map(idOf));
    await first?.confirm();
    if (isGone) await outbox.close();
    goOn();
    await compacting;
    const last = isGone ? outboxOn() : outbox;
    delivered.push(...(await deliver(last)));
    await last.close();
    await compact();
    delivered.push(...(await deliver(outboxOn())));
    expect(sorted(delivered)).toEqual(sorted(stored));
  });
});

describe('a removal', () => {
  it('is delivered once, after the upload or instead of it', async () => {
    const storage = storageOn();
    const outbox = await begin();
    const [deliveredBefore, removedFirst] = [await store(storage), await store(storage, anUploadDraft().with({ receivedAt: new Date(), customerId: 'other' }).file('x'))];
    await (await outbox.next(1))?.confirm();
    for (const { uploadId } of [deliveredBefore, removedFirst]) {
      pass(1);
      await storage.storedUploads.remove(uploadId);
    }
    const { events = [] } = (await outbox.next(9)) ?? {};
    expect(events).toEqual([
      { type: 'removed', uploadId: deliveredBefore.uploadId, kind: 'historical', customerId: 'customer-1', receivedAt: deliveredBefore.receivedAt, removedAt: new Date(Date.now() - 1) },
      { type: 'removed', uploadId: removedFirst.uploadId, kind: 'historical', customerId: 'other', receivedAt: removedFirst.receivedAt, removedAt: new Date() },
    ]);
  });

  it('of many uploads is delivered a part at a time, and read once', async () => {
    await begin().then((outbox) => outbox.close());
    const { ids } = await share(2_500);
    await new BucketUploads(bucket.another()).removeAll({});
    const on = bucket.another();
    const outbox = outboxOn(on);
    let reads = 0;
    on.before = (operation, key) => {
      if (operation === 'read' && key.startsWith('events/removed/')) reads += 1;
    };
    expect(sorted(await deliver(outbox, 250))).toEqual(sorted(ids.map((id) => `${id}-removed`)));
    expect(reads).toBe(3);
    expect(bucket.keys.filter((key) => key.startsWith('events/removed/') || key.startsWith('staging/'))).toEqual([]);
  });

  it('is not recorded if the outbox was never opened', async () => {
    const storage = storageOn();
    const { uploadId } = await store(storage);
    await storage.storedUploads.remove(uploadId);
    expect(bucket.keys.filter((key) => key.startsWith('events/'))).toEqual([]);
  });

  it.each([
    ['an upload', (uploads: BucketUploads, id: string) => uploads.remove(id)],
    ['the uploads of a customer', (uploads: BucketUploads) => uploads.removeAll({ customerId: 'gone' })],
  ])('of %s is delivered if a crashed process had begun it, wherever it crashed', async (_, remove) => {
    const storage = storageOn();
    const outbox = await begin();
    const draft = anUploadDraft().with({ receivedAt: new Date(), customerId: 'gone' });
    const { uploadId } = await store(storage, draft);
    const kept = await store(storage, draft.with({ customerId: 'kept' }));
    expect(sorted(await deliver(outbox))).toEqual(sorted([uploadId, kept.uploadId]));
    await outbox.close();
    const whole = bucket;
    const began = Date.now();
    for (let at = 0, last = 1; at <= last; at++) {
      bucket = whole.copy();
      vi.setSystemTime(began);
      const crashing = bucket.another();
      let operations = 0;
      crashing.before = () => {
        if (operations++ >= at) throw new Error('crashed');
      };
      await remove(new BucketUploads(crashing), uploadId).catch(() => undefined);
      last = operations;
      pass(2 * MINUTE_MS);
      await new Sweeper(bucket.another(), logger).sweep();
      const isThere = (await new BucketView(bucket.another()).lines()).some((line) => line.upload_id === uploadId);
      const next = outboxOn();
      expect(await deliver(next)).toEqual(isThere ? [] : [`${uploadId}-removed`]);
      expect((await new BucketView(bucket.another()).keys('staging/'))).toEqual([]);
      await next.close();
    }
  });

  it('is delivered in full when the sweeper completes it, and the stalled process then continues', async () => {
    const storage = storageOn();
    const outbox = await begin();
    const draft = anUploadDraft().with({ receivedAt: new Date(), customerId: 'gone' });
    const [first, second] = [await store(storage, draft.file('x')), await store(storage, draft.file('y'))];
    await deliver(outbox);
    const stalled = bucket.another();
    const delivered: string[] = [];
    stalled.before = async (operation, key) => {
      if (operation === 'create' && key.startsWith('staging/')) {
        // Another process removes the first of the two uploads, so that the stalled process removes only the line of
        // the second.
        await new BucketUploads(bucket.another()).remove(first.uploadId);
        delivered.push(...(await deliver(outbox)));
      }
      if (!key.startsWith('events/removed/')) return;
      pass(2 * MINUTE_MS);
      await new Sweeper(bucket.another(), logger).sweep();
      const batch = await outbox.next(1);
      delivered.push(...(batch?.events ?? []).map(idOf));
      await batch?.confirm();
      await outbox.close();
    };
    await new BucketUploads(stalled).removeAll({ customerId: 'gone' });
    delivered.push(...(await deliver(outboxOn())));
    expect([...new Set(sorted(delivered))]).toEqual(sorted([first, second].map(({ uploadId }) => `${uploadId}-removed`)));
  });

  it('is delivered once although it failed and was repeated', async () => {
    const storage = storageOn();
    const outbox = await begin();
    const { uploadId } = await store(storage, anUploadDraft().with({ receivedAt: new Date(), customerId: 'gone' }).file('x'));
    await deliver(outbox);
    const failing = bucket.another();
    failing.before = (operation, key) => {
      if (operation === 'remove' && key.startsWith('files/')) throw new Error('denied');
    };
    await expect(new BucketUploads(failing).remove(uploadId)).rejects.toMatchObject({ kind: 'storage-failure' });
    expect(await storage.storedUploads.remove(uploadId)).toBe(true);
    expect(await storage.storedUploads.removeAll({ customerId: 'gone' })).toBe(0);
    pass(2 * MINUTE_MS);
    await new Sweeper(bucket.another(), logger).sweep();
    expect(await deliver(outbox)).toEqual([`${uploadId}-removed`]);
    expect(await storage.storedUploads.remove(uploadId)).toBe(false);
  });

  it('completes a marker of an older version, which names no customer', async () => {
    const storage = storageOn();
    const outbox = await begin();
    const { uploadId, content } = await store(storage, anUploadDraft().with({ receivedAt: new Date() }).file('x'));
    await bucket.another().create('staging/1.removal', Buffer.from(JSON.stringify({ removed: [{ upload_id: uploadId, content_path: content?.path, claim: null }] })));
    pass(2 * MINUTE_MS);
    await new Sweeper(bucket.another(), logger).sweep();
    expect(bucket.keys.filter((key) => !key.startsWith('uploads/'))).toEqual(['events/cursor']);
    expect(await deliver(outbox)).toEqual([]);
  });

  it('leaves a store that verifies without a finding', async () => {
    const storage = storageOn();
    const outbox = await begin();
    await storeEach(storage);
    await outbox.next(2);
    const findings: unknown[] = [];
    for await (const finding of verifyBucket(bucket.another())) findings.push(finding);
    expect(findings).toEqual([]);
  });
});
