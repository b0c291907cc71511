import { Logger } from '@nestjs/common';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { CollectingLogger } from '../../../../../../test/support/collecting-logger.js';
import { anUploadDraft, InMemoryBucket, InMemoryUploadEvents } from '../../../../../testing/index.js';
import { storeUpload } from '../../../../../testing/upload-draft.builder.js';
import { EventRelay, EventRelayOptions } from '../../../../application/event-relay.js';
import { DeliveryError, type UploadEvent } from '../../../../application/ports/upload-events.port.js';
import type { UploadKind } from '../../../../domain/upload.js';
import { ObjectStorageFileStorage } from '../object-storage.file-storage.adapter.js';

const SECOND_MS = 1_000;

/** A receiver that records the ids of the events of each attempt, including those that fail. */
class Receiver extends InMemoryUploadEvents {
  readonly attempts: string[][] = [];

  get deliveredIds(): string[] {
    return this.delivered.map(({ id }) => id);
  }

  override deliver(events: readonly UploadEvent[], signal: AbortSignal): Promise<void> {
    this.attempts.push(events.map(({ id }) => id));
    return super.deliver(events, signal);
  }
}

describe('a process that cannot reach the receiver', () => {
  let bucket: InMemoryBucket;
  let storage: ObjectStorageFileStorage;
  let relays: EventRelay[];
  let log: CollectingLogger;
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ['Date', 'setInterval', 'clearInterval', 'setTimeout', 'clearTimeout'], now: Date.parse('2026-03-10T12:00:00Z') });
    log = new CollectingLogger();
    Logger.overrideLogger(log);
    bucket = new InMemoryBucket();
    storage = new ObjectStorageFileStorage({ bucket: bucket.another(), logger: log });
    relays = [];
  });
  afterEach(async () => {
    for (const relay of relays) await relay.beforeApplicationShutdown();
    await storage.close();
    Logger.overrideLogger(false);
    vi.useRealTimers();
  });

  /** Starts the relay of another process on the same bucket. */
  async function start(receiver: Receiver): Promise<EventRelay> {
    const sleep = (milliseconds: number, signal: AbortSignal): Promise<void> =>
      new Promise((resolve) => {
        const end = (): void => {
          clearTimeout(timer);
          signal.removeEventListener('abort', end);
          resolve();
        };
        const timer = setTimeout(end, milliseconds);
        signal.addEventListener('abort', end);
      });
    const relay = new EventRelay(new ObjectStorageFileStorage({ bucket: bucket.another(), logger: log }), receiver, new EventRelayOptions('https://load.example', sleep));
    relays.push(relay);
    await relay.onApplicationBootstrap();
    return relay;
  }

  /** Lets seconds pass until a condition holds, at most `most`. Returns how many have passed. */
  async function pass(most: number, until = (): boolean => false): Promise<number> {
    for (let second = 0; second < most; second++) {
      if (until()) return second;
      await vi.advanceTimersByTimeAsync(SECOND_MS);
      // The operations of the in-memory bucket take iterations of the event loop, but no time of the fake clock.
      for (let turn = 0; turn < 50; turn++) await new Promise(setImmediate);
    }
    return most;
  }

  /** Stores uploads, one a second. Returns their ids. */
  async function store(count: number, kind: UploadKind = 'historical'): Promise<string[]> {
    const ids: string[] = [];
    for (let index = 0; index < count; index++) {
      ids.push((await storeUpload(storage, anUploadDraft().with({ kind }).build())).uploadId);
      await pass(1);
    }
    return ids;
  }

  it('lets another one deliver within a minute, and delivers again when that one stops', async () => {
    const [away, present] = [new Receiver(), new Receiver()];
    away.failWith(new Error('away'));
    await start(away);
    await pass(1);
    const other = await start(present);
    const ids = await store(3);
    expect(present.attempts).toEqual([]);
    expect(await pass(60, () => present.deliveredIds.length === 3)).toBeLessThan(60);
    expect(present.deliveredIds).toEqual(ids);
    const tried = away.attempts.length;
    ids.push(...(await store(5)));
    await pass(60);
    expect(present.deliveredIds).toEqual(ids);
    expect(away.attempts).toHaveLength(tried);

    away.recover();
    await other.beforeApplicationShutdown();
    const last = await store(2);
    expect(await pass(60, () => away.deliveredIds.length === 2)).toBeLessThan(60);
    expect(away.deliveredIds).toEqual(last);
    expect(log.entries.filter(({ level }) => level === 'warn')).toHaveLength(1);
  });

  it('repeats the same batch after its pauses if no other process has delivered it', async () => {
    await (await start(new Receiver())).beforeApplicationShutdown();
    const first = [...(await store(1, 'historical')), ...(await store(1, 'nowcast'))];
    const receiver = new Receiver();
    receiver.failWith(new Error('away'));
    await start(receiver);
    await pass(60, () => receiver.attempts.length > 0);
    const more = await store(100);
    expect(receiver.attempts.length).toBeGreaterThan(5);
    for (const attempt of receiver.attempts) expect(attempt).toEqual(first);
    receiver.recover();
    await pass(300, () => receiver.deliveredIds.length === 102);
    expect(receiver.deliveredIds).toEqual([...first, ...more]);
  });

  it('is the only one that delivers when it reaches the receiver again before another has taken over', async () => {
    const [receiver, other] = [new Receiver(), new Receiver()];
    receiver.failWith(new Error('away'));
    await start(receiver);
    const ids = await store(40);
    receiver.recover();
    await pass(300, () => receiver.deliveredIds.length === 40);
    await start(other);
    ids.push(...(await store(20)));
    await pass(10);
    expect(receiver.deliveredIds).toEqual(ids);
    expect(other.attempts).toEqual([]);
  });

  it('pauses longer and longer if no process reaches the receiver', async () => {
    const receivers = [new Receiver(), new Receiver()];
    for (const receiver of receivers) {
      receiver.failWith(new Error('away'));
      await start(receiver);
    }
    const ids = await store(1);
    await pass(1_200);
    for (const { attempts } of receivers) {
      expect(attempts.length).toBeGreaterThan(5);
      expect(attempts.length).toBeLessThan(16);
      for (const attempt of attempts) expect(attempt).toEqual(ids);
    }
  });

  it('is not one whose receiver asks it to wait', async () => {
    const [throttled, other] = [new Receiver(), new Receiver()];
    throttled.failWith(new DeliveryError('throttled', { retryAfterSeconds: 60 }));
    await start(throttled);
    await pass(1);
    await start(other);
    await store(1);
    await pass(200);
    expect(throttled.attempts.length).toBeGreaterThan(2);
    expect(other.attempts).toEqual([]);
  });
});
