import { setImmediate as nextIteration } from 'node:timers/promises';
import { Logger } from '@nestjs/common';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { CollectingLogger } from '../../../test/support/collecting-logger.js';
import { ServiceError } from '../../common/service-error.js';
import { anUploadDraft, InMemoryFileStorage, InMemoryUploadEvents } from '../../testing/index.js';
import { storeUpload } from '../../testing/upload-draft.builder.js';
import { EventRelay, EventRelayOptions } from './event-relay.js';
import type { FileStorage } from './ports/file-storage.port.js';
import { DeliveryError, type UploadEvent, UploadEvents } from './ports/upload-events.port.js';

const SOURCE = 'https://load.example/api';

let storage: InMemoryFileStorage;
let events: InMemoryUploadEvents;
let log: CollectingLogger;
let pauses: number[];
let relays: EventRelay[];
/** Called and awaited whenever a relay pauses. A test can replace it. */
let onPause: () => unknown;
beforeEach(() => {
  storage = new InMemoryFileStorage();
  events = new InMemoryUploadEvents();
  log = new CollectingLogger();
  pauses = [];
  relays = [];
  onPause = () => undefined;
  Logger.overrideLogger(log);
});
afterEach(async () => {
  vi.restoreAllMocks();
  for (const relay of relays) await relay.beforeApplicationShutdown();
  Logger.overrideLogger(false);
});

/** Starts a relay that pauses only as long as `onPause` takes. The lengths that it wants are recorded in `pauses`. */
async function start(receiver: UploadEvents = events, store: FileStorage = storage, source: string | Promise<string> = SOURCE): Promise<EventRelay> {
  const sleep = async (milliseconds: number): Promise<void> => {
    pauses.push(milliseconds);
    await onPause();
    await nextIteration();
  };
  const relay = new EventRelay(store, receiver, new EventRelayOptions(source, sleep));
  relays.push(relay);
  await relay.onApplicationBootstrap();
  return relay;
}

/** Makes the event loop seem to be busy for this share of the time. */
const utilize = (utilization: number) => vi.spyOn(performance, 'eventLoopUtilization').mockReturnValue({ idle: 1 - utilization, active: utilization, utilization });

const upload = () => storeUpload(storage, anUploadDraft().build());

/** The lengths of the pauses of a relay whose first deliveries all fail. */
async function pausesAfter(failures: number, error: Error): Promise<number[]> {
  events.failWith(error);
  onPause = () => {
    if (pauses.length === failures) events.recover();
  };
  await storage.eventOutbox.open();
  await upload();
  await start();
  await events.atLeast(1);
  return pauses.slice(0, failures);
}

const idsOf = (batch: readonly UploadEvent[]): string[] => batch.map(({ id }) => id);

describe('EventRelay', () => {
  it('delivers a CloudEvent when an upload is stored, and another when it is removed', async () => {
    await start();
    const stored = await storeUpload(storage, anUploadDraft().with({ kind: 'nowcast', idempotencyKey: 'key', additionalData: 'x', contentType: 'text/csv' }).file('at,kwh').build());
    await events.atLeast(1);
    while (Date.now() === stored.receivedAt.getTime());
    await storage.storedUploads.remove(stored.uploadId);
    const [first, second] = await events.atLeast(2);

    const always = { specversion: '1.0', source: SOURCE, subject: 'customer-1', datacontenttype: 'application/json' };
    expect(first).toEqual({
      ...always,
      type: 'load-data.upload.stored.v1',
      id: stored.uploadId,
      time: stored.receivedAt.toISOString(),
      data: {
        upload_id: stored.uploadId,
        kind: 'nowcast',
        customer_id: 'customer-1',
        filename: 'load.csv',
        manufacturer: 'Acme',
        additional_data: 'x',
        received_at: stored.receivedAt.toISOString(),
        content_type: 'text/csv',
        content_size: 6,
        content_sha256: stored.content?.sha256,
      },
    });
    expect(second).toEqual({
      ...always,
      type: 'load-data.upload.removed.v1',
      id: `${stored.uploadId}-removed`,
      time: stored.receivedAt.toISOString(),
      data: { upload_id: stored.uploadId, kind: 'nowcast', customer_id: 'customer-1' },
    });
  });

  it('delivers a backlog of 1,200 uploads in order, 500 at most at once', async () => {
    const sizes: number[] = [];
    const receiver = new (class extends InMemoryUploadEvents {
      override deliver(batch: readonly UploadEvent[], signal: AbortSignal): Promise<void> {
        sizes.push(batch.length);
        return super.deliver(batch, signal);
      }
    })();
    await storage.eventOutbox.open();
    const uploads = [];
    for (let count = 0; count < 1_200; count++) uploads.push(await upload());
    await start(receiver);
    expect(idsOf(await receiver.atLeast(1_200))).toEqual(uploads.map(({ uploadId }) => uploadId));
    expect(sizes).toEqual([500, 500, 200]);
  });

  it('delivers at most 500 events a second while the event loop is busy', async () => {
    vi.spyOn(performance, 'now').mockReturnValue(0);
    utilize(1);
    await storage.eventOutbox.open();
    for (let count = 0; count < 1_200; count++) await upload();
    await start();
    await events.atLeast(1_200);
    expect(pauses).toEqual([5, 1_000, 5, 1_000]);
  });

  it('delivers as slowly if there are fewer than 500 new events each time', async () => {
    const now = Date.now();
    vi.spyOn(performance, 'now').mockReturnValue(0);
    utilize(1);
    vi.spyOn(Date, 'now').mockReturnValue(now);
    const uploadSome = async () => {
      for (let count = 0; count < 300; count++) await storeUpload(storage, anUploadDraft().with({ receivedAt: new Date(now) }).build());
    };
    onPause = async () => {
      if (pauses.length === 1) await uploadSome();
    };
    await storage.eventOutbox.open();
    await uploadSome();
    await start();
    await events.atLeast(600);
    await vi.waitFor(() => { expect(pauses).toEqual([200, 200, 5, 1_200]); });
  });

  it('delivers a backlog without waiting while the event loop is idle', async () => {
    vi.spyOn(performance, 'now').mockReturnValue(0);
    utilize(0);
    await storage.eventOutbox.open();
    for (let count = 0; count < 1_200; count++) await upload();
    await start();
    await events.atLeast(1_200);
    expect(pauses).toEqual([5, 5]);
  });

  it('repeats a failed delivery with the same events until it succeeds, and logs that once', async () => {
    const attempts: string[][] = [];
    const failing = new (class extends InMemoryUploadEvents {
      override async deliver(batch: readonly UploadEvent[], signal: AbortSignal): Promise<void> {
        attempts.push(idsOf(batch));
        // This upload is stored during the failing delivery, so its event must not be in the next delivery, which
        // repeats the same batch.
        if (attempts.length < 5) await upload();
        if (attempts.length < 4) throw new Error('secret-free reason');
        return super.deliver(batch, signal);
      }
    })();
    const { uploadId } = await storage.eventOutbox.open().then(upload);
    await start(failing);
    await failing.atLeast(1);
    expect(attempts.slice(0, 4)).toEqual([[uploadId], [uploadId], [uploadId], [uploadId]]);
    await vi.waitUntil(() => log.text.includes('delivered again'));
    expect(log.entries.filter(({ level }) => level === 'warn').map(({ text }) => text)).toEqual([expect.stringMatching(/^Delivering events failed; retrying until it succeeds\. .*secret-free reason/)]);
    expect(log.entries.filter(({ text }) => text.startsWith('Events are delivered again.'))).toHaveLength(1);
  });

  it.each<[string, Error, (failure: number) => [number, number]]>([
    ['of 1 s, 2 s, 4 s and so on, up to five minutes', new Error('away'), (failure) => [Math.min(500 * 2 ** failure, 300_000), Math.min(1_000 * 2 ** failure, 300_000)]],
    ['as long as the receiver wants', new DeliveryError('throttled', { retryAfterSeconds: 200 }), (failure) => [200_000, Math.max(200_000, Math.min(1_000 * 2 ** failure, 300_000))]],
    ['of five minutes if the receiver wants longer ones', new DeliveryError('throttled', { retryAfterSeconds: 86_400 }), () => [300_000, 300_000]],
  ])('pauses between attempts: %s', async (_, error, bounds) => {
    for (const [failure, pause] of (await pausesAfter(12, error)).entries()) {
      const [least, most] = bounds(failure);
      expect(pause).toBeGreaterThanOrEqual(least);
      expect(pause).toBeLessThanOrEqual(most);
    }
  });

  it('pauses for half as long at the least, so that processes repeat their deliveries at different times', async () => {
    const random = vi.spyOn(Math, 'random').mockReturnValue(0);
    const lengths = await pausesAfter(3, new Error('away'));
    random.mockRestore();
    expect(lengths).toEqual([500, 1_000, 2_000]);
  });

  it('delivers a batch only once if confirming it fails for a while', async () => {
    const receiver = new (class extends InMemoryUploadEvents {
      override async deliver(batch: readonly UploadEvent[], signal: AbortSignal): Promise<void> {
        await super.deliver(batch, signal);
        if (this.delivered.length === 1) storage.failWith(new ServiceError('storage-failure'));
      }
    })();
    await start(receiver);
    onPause = () => {
      if (pauses.length > 3) storage.recover();
    };
    const first = await upload();
    await vi.waitUntil(() => log.text.includes('delivered again'));
    const second = await upload();
    expect(idsOf(await receiver.atLeast(2))).toEqual([first.uploadId, second.uploadId]);
  });

  it('delivers only the removal of an upload that was removed while its delivery failed', async () => {
    const { uploadId } = await storage.eventOutbox.open().then(upload);
    events.failWith(new Error('away'));
    onPause = () => {
      if (pauses.length === 2) void storage.storedUploads.remove(uploadId).then(() => { events.recover(); });
    };
    await start();
    expect(idsOf(await events.atLeast(1))).toEqual([`${uploadId}-removed`]);
  });

  it('opens the outbox in a store that fails at first', async () => {
    storage.failWith(new ServiceError('storage-failure'));
    onPause = () => { storage.recover(); };
    await start();
    const { uploadId } = await upload();
    expect(idsOf(await events.atLeast(1))).toEqual([uploadId]);
  });

  it('begins when the address of the service is known', async () => {
    let announce: (source: string) => void = () => undefined;
    await start(events, storage, new Promise((resolve) => (announce = resolve)));
    await upload();
    announce('http://127.0.0.1:1');
    expect((await events.atLeast(1))[0]?.source).toBe('http://127.0.0.1:1');
  });

  it('logs once that a store without an outbox delivers no events', async () => {
    await start(events, Object.assign(new InMemoryFileStorage(), { eventOutbox: undefined }));
    expect(log.entries).toEqual([{ level: 'warn', text: expect.stringContaining("doesn't offer an outbox") as string }]);
  });

  it('stops during a pause, during a delivery, and before the address is known', async () => {
    let begun: () => void = () => undefined;
    const delivering = new Promise<void>((resolve) => (begun = resolve));
    let cut: AbortSignal | undefined;
    const hanging = new (class extends UploadEvents {
      override deliver(_: readonly UploadEvent[], signal: AbortSignal): Promise<void> {
        cut = signal;
        begun();
        return new Promise((_resolve, reject) => { signal.addEventListener('abort', () => { reject(signal.reason as Error); }); });
      }
    })();
    const during = await start(hanging);
    await upload();
    await delivering;
    await during.beforeApplicationShutdown();
    expect(cut?.aborted).toBe(true);
    expect(log.entries).toEqual([]);
    const before = await start(events, storage, new Promise(() => undefined));
    await before.beforeApplicationShutdown();
    events.failWith(new Error('away'));
    const pausing = new EventRelay(storage, events, new EventRelayOptions(SOURCE));
    await pausing.onApplicationBootstrap();
    await vi.waitUntil(() => log.entries.length > 0);
    await pausing.beforeApplicationShutdown();
    expect(events.delivered).toEqual([]);
  });

  it('lets a delivery in progress end when it stops, and confirms its events', async () => {
    let finish: () => void = () => undefined;
    const finishing = new Promise<void>((resolve) => (finish = resolve));
    let begun: () => void = () => undefined;
    const delivering = new Promise<void>((resolve) => (begun = resolve));
    const slow = new (class extends InMemoryUploadEvents {
      override async deliver(batch: readonly UploadEvent[], signal: AbortSignal): Promise<void> {
        begun();
        await finishing;
        signal.throwIfAborted();
        return super.deliver(batch, signal);
      }
    })();
    const relay = await start(slow);
    await upload();
    await delivering;
    const stopped = relay.beforeApplicationShutdown();
    finish();
    await stopped;
    expect(slow.delivered).toHaveLength(1);
    expect(await storage.eventOutbox.next(1)).toBeUndefined();
  });

  it('waits for the delivery in progress alone when it finishes, not for a store that is silent', async () => {
    const silent = new (class extends InMemoryFileStorage {
      override readonly eventOutbox = Object.assign(new InMemoryFileStorage().eventOutbox, { next: () => new Promise<undefined>(() => undefined) });
    })();
    const relay = await start(events, silent);
    await relay.finish();
    expect(events.delivered).toEqual([]);
  });

  it('begins no delivery once it finishes', async () => {
    let reading: () => void = () => undefined;
    const isReading = new Promise<void>((resolve) => (reading = resolve));
    let go: () => void = () => undefined;
    const gate = new Promise<void>((resolve) => (go = resolve));
    await storage.eventOutbox.open();
    await upload();
    const next = storage.eventOutbox.next.bind(storage.eventOutbox);
    Object.assign(storage.eventOutbox, { next: async (limit: number) => { reading(); await gate; return next(limit); } });
    const relay = await start();
    await isReading;
    await relay.finish();
    go();
    await relay.beforeApplicationShutdown();
    expect(events.delivered).toEqual([]);
  });
});
