import { Logger } from '@nestjs/common';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { CollectingLogger } from '../../../test/support/collecting-logger.js';
import { InMemoryFileStorage } from '../../testing/in-memory.file-storage.js';
import { anUploadDraft } from '../../testing/upload-draft.builder.js';
import { Retention, RetentionPeriod } from './retention.js';

const NOON = Date.parse('2026-01-31T12:00:00Z');
const HOUR_MS = 60 * 60 * 1000;

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

  it('removes what is older than the period at the start, and then every hour', async () => {
    await store('2025-12-31');
    await store('2026-01-01');
    retention.onApplicationBootstrap();
    await vi.advanceTimersByTimeAsync(0);
    expect(keptDays()).toEqual(['2026-01-01']);
    await store('2025-12-30');
    await vi.advanceTimersByTimeAsync(HOUR_MS);
    expect(keptDays()).toEqual(['2026-01-01']);
    await vi.advanceTimersByTimeAsync(12 * HOUR_MS);
    expect(keptDays()).toEqual([]);
    const removed = (day: string) => expect.stringContaining(`Removed 1 uploads of the days before ${day}, because RETENTION_DAYS is 30.`) as string;
    expect(log.entries.map(({ text }) => text)).toEqual([removed('2026-01-01'), removed('2026-01-01'), removed('2026-01-02')]);
  });

  it('tries again an hour after a failure', async () => {
    await store('2025-12-31');
    storage.failWith(new Error('The store is away.'));
    retention.onApplicationBootstrap();
    await vi.advanceTimersByTimeAsync(HOUR_MS - 1);
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
