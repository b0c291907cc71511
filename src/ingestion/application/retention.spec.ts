import { Logger } from '@nestjs/common';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { CollectingLogger } from '../../../test/support/collecting-logger.js';
import { HOUR_MS } from '../../common/durations.js';
import { InMemoryFileStorage } from '../../testing/in-memory.file-storage.js';
import { anUploadDraft } from '../../testing/upload-draft.builder.js';
import { Retention, RetentionPeriod } from './retention.js';

const NOON = Date.parse('2026-01-31T12:00:00Z');

describe('retention', () => {
  let storage: InMemoryFileStorage;
  let retention: Retention;
  let log: CollectingLogger;
  beforeEach(() => {
    vi.useFakeTimers({ now: NOON });
    storage = new InMemoryFileStorage();
    retention = new Retention(storage, new RetentionPeriod(30));
    log = new CollectingLogger();
    Logger.overrideLogger(log);
  });
  afterEach(async () => {
    await retention.onApplicationShutdown();
    Logger.overrideLogger(false);
    vi.useRealTimers();
  });

  /** Stores an upload that was received at noon (UTC) of a day. */
  const store = (day: string) => storage.store(anUploadDraft().with({ receivedAt: new Date(`${day}T12:00:00Z`) }).build());
  const keptDays = () => storage.uploads.map(({ receivedAt }) => receivedAt.toISOString().slice(0, 10));

  it('removes what is older than the period an hour after the start, and then every hour', async () => {
    await store('2025-12-31');
    await store('2026-01-01');
    retention.onApplicationBootstrap();
    await vi.advanceTimersByTimeAsync(HOUR_MS - 1);
    expect(keptDays()).toEqual(['2025-12-31', '2026-01-01']);
    await vi.advanceTimersByTimeAsync(1);
    expect(keptDays()).toEqual(['2026-01-01']);
    for (const day of ['2025-12-29', '2025-12-30']) await store(day);
    await vi.advanceTimersByTimeAsync(HOUR_MS);
    expect(keptDays()).toEqual(['2026-01-01']);
    await vi.advanceTimersByTimeAsync(11 * HOUR_MS);
    expect(keptDays()).toEqual([]);
    const removed = (uploads: string, day: string) => expect.stringContaining(`Removed ${uploads} of the days before ${day}, because RETENTION_DAYS is 30.`) as string;
    expect(log.entries.map(({ text }) => text)).toEqual([removed('1 upload', '2026-01-01'), removed('2 uploads', '2026-01-01'), removed('1 upload', '2026-01-02')]);
  });

  it('keeps uploads of the first day within the period, by the time at which they were received', async () => {
    const received = (receivedAt: string) => storage.store(anUploadDraft().with({ receivedAt: new Date(receivedAt) }).build());
    await received('2025-12-31T23:59:59.999Z');
    await received('2026-01-01T00:00:00.000Z');
    const slow = anUploadDraft().with({ receivedAt: new Date('2025-12-31T12:00:00Z') }).build();
    await storage.store({ ...slow, conclude: async (stored) => ({ ...(await slow.conclude(stored)), receivedAt: new Date('2026-01-01T11:00:00Z') }) });
    retention.onApplicationBootstrap();
    await vi.advanceTimersByTimeAsync(HOUR_MS);
    expect(storage.uploads.map(({ receivedAt }) => receivedAt.toISOString())).toEqual(['2026-01-01T00:00:00.000Z', '2026-01-01T11:00:00.000Z']);
  });

  it.each([
    ['forward', 10],
    ['back', -10],
  ])('removes nothing after the clock jumped %s, until it was steady for a day', async (direction, years) => {
    await store('2026-01-31');
    retention.onApplicationBootstrap();
    await vi.advanceTimersByTimeAsync(0);
    const daysMs = years * 365 * 24 * HOUR_MS;
    vi.setSystemTime(Date.now() + daysMs);
    await store(new Date(NOON + daysMs - 40 * 24 * HOUR_MS).toISOString().slice(0, 10));
    await vi.advanceTimersByTimeAsync(24 * HOUR_MS);
    expect(storage.uploads).toHaveLength(2);
    const message = expect.stringContaining(`The clock of the machine jumped ${direction} by 87600 hours. No uploads are removed by RETENTION_DAYS until`) as string;
    expect(log.entries.map(({ text }) => text)).toEqual([message]);
    await vi.advanceTimersByTimeAsync(HOUR_MS);
    expect(storage.uploads).toHaveLength(years > 0 ? 0 : 1);
  });

  it('removes nothing of a store that a machine opens with a clock that is 100 days ahead, and is set right after half an hour', async () => {
    for (const day of ['2025-12-31', '2026-01-30']) await store(day);
    const aheadMs = 100 * 24 * HOUR_MS;
    vi.setSystemTime(NOON + aheadMs);
    await retention.onApplicationShutdown();
    retention = new Retention(storage, new RetentionPeriod(30));
    retention.onApplicationBootstrap();
    await vi.advanceTimersByTimeAsync(HOUR_MS / 2);
    vi.setSystemTime(Date.now() - aheadMs);
    await vi.advanceTimersByTimeAsync(24 * HOUR_MS);
    expect(keptDays()).toEqual(['2025-12-31', '2026-01-30']);
    await vi.advanceTimersByTimeAsync(HOUR_MS);
    expect(keptDays()).toEqual(['2026-01-30']);
  });

  it('goes on when the clock is set by less than an hour', async () => {
    await store('2025-12-31');
    vi.setSystemTime(NOON + 0.9 * HOUR_MS);
    retention.onApplicationBootstrap();
    await vi.advanceTimersByTimeAsync(HOUR_MS);
    expect(keptDays()).toEqual([]);
  });

  it('tries again an hour after a failure', async () => {
    await store('2025-12-31');
    storage.failWith(new Error('The store is away.'));
    retention.onApplicationBootstrap();
    await vi.advanceTimersByTimeAsync(2 * HOUR_MS - 1);
    storage.recover();
    expect(keptDays()).toEqual(['2025-12-31']);
    await vi.advanceTimersByTimeAsync(1);
    expect(keptDays()).toEqual([]);
  });

  it('ends when the service stops', async () => {
    retention.onApplicationBootstrap();
    await vi.advanceTimersByTimeAsync(0);
    await retention.onApplicationShutdown();
    await store('2025-12-31');
    await vi.advanceTimersByTimeAsync(2 * HOUR_MS);
    expect(keptDays()).toEqual(['2025-12-31']);
  });
});
