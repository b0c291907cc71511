import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Logger } from '@nestjs/common';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { CollectingLogger } from '../support/collecting-logger.js';
import { ServiceError } from '../../src/common/service-error.js';
import { EventRelay, EventRelayOptions } from '../../src/ingestion/application/event-relay.js';
import type { EventOutbox } from '../../src/ingestion/application/ports/event-outbox.port.js';
import { anUploadDraft, InMemoryFileStorage, InMemoryUploadEvents } from '../../src/testing/index.js';
import { storeUpload } from '../../src/testing/upload-draft.builder.js';
import { LocalDiskFileStorage } from '../../src/ingestion/adapters/out/local-disk/local-disk.file-storage.adapter.js';
import { GatedDisk } from '../../src/testing/gated-disk.js';
import { MeasuredFileStorage } from '../../src/operations/metrics/measured-file-storage.js';
import { Metrics } from '../../src/operations/metrics/metrics.js';

let storage: InMemoryFileStorage;
let metrics: Metrics;
let measured: MeasuredFileStorage;
beforeEach(() => {
  vi.useFakeTimers({ toFake: ['Date'] });
  storage = new InMemoryFileStorage();
  metrics = new Metrics();
  measured = new MeasuredFileStorage(storage, metrics);
});
afterEach(() => {
  vi.useRealTimers();
  Logger.overrideLogger(false);
});

const outbox = (): EventOutbox => measured.eventOutbox ?? expect.fail('The store has no outbox.');

const fail = () => { storage.failWith(new ServiceError('storage-failure')); };

const passSeconds = (seconds: number) => vi.setSystemTime(Date.now() + seconds * 1_000);

async function lagSeconds(): Promise<number> {
  const [, value] = /^load_data_events_lag_seconds (.*)$/m.exec(await metrics.registry.metrics()) ?? [];
  return Number(value);
}

describe('the lag of events', () => {
  it.each<[string, () => Promise<unknown>]>([
    ['opened', () => outbox().open()],
    ['read', () => outbox().next(10)],
  ])('counts from the first failure while the outbox can not be %s, until it can', async (_name, call) => {
    expect(await lagSeconds()).toBe(0);
    fail();
    for (const lag of [0, 300]) {
      await expect(call()).rejects.toThrow('storage-failure');
      expect(await lagSeconds()).toBe(lag);
      passSeconds(300);
    }
    expect(await lagSeconds()).toBe(600);
    storage.recover();
    await call();
    expect(await lagSeconds()).toBe(0);
  });

  it('counts from an undelivered event that is older than the first failure, and then from the oldest that is found', async () => {
    await outbox().open();
    await storeUpload(storage, anUploadDraft().build());
    passSeconds(100);
    await outbox().next(10);
    fail();
    await expect(outbox().next(10)).rejects.toThrow();
    passSeconds(100);
    expect(await lagSeconds()).toBe(200);
    storage.recover();
    const batch = await outbox().next(10);
    expect(await lagSeconds()).toBe(200);
    await batch?.confirm();
    await outbox().next(10);
    expect(await lagSeconds()).toBe(0);
  });

  it('counts while a file of events on the local disk can not be read, although later events are delivered', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'events-'));
    const disk = new GatedDisk();
    const local = await LocalDiskFileStorage.open({ directory, logger: { warn: () => undefined }, disk });
    try {
      measured = new MeasuredFileStorage(local, metrics);
      await outbox().open();
      await storeUpload(local, anUploadDraft().build());
      disk.gate = (perform, operation, target) => (operation === 'open' && target.endsWith('.ndjson') ? Promise.reject(new Error('EIO')) : perform());
      for (const lag of [0, 100]) {
        expect(await outbox().next(10)).toBeUndefined();
        expect(await lagSeconds()).toBe(lag);
        passSeconds(100);
      }
      disk.gate = (perform, operation, target) => (operation === 'open' && target.includes('kind=historical') ? Promise.reject(new Error('EIO')) : perform());
      await storeUpload(local, anUploadDraft().with({ kind: 'nowcast', receivedAt: new Date() }).build());
      await (await outbox().next(10))?.confirm();
      expect(await lagSeconds()).toBe(200);
    } finally {
      await local.close();
      await rm(directory, { recursive: true });
    }
  });

  it('grows after the delivery has ended, because the outbox broke the promise of its port', async () => {
    const log = new CollectingLogger();
    Logger.overrideLogger(log);
    storage.eventOutbox.wait = () => Promise.reject(new Error('broken'));
    const relay = new EventRelay(measured, new InMemoryUploadEvents(), new EventRelayOptions('https://load.example'));
    await relay.onApplicationBootstrap();
    await vi.waitUntil(() => log.text.includes('The delivery of events has ended'));
    passSeconds(900);
    expect(await lagSeconds()).toBeGreaterThanOrEqual(900);
    await relay.beforeApplicationShutdown();
  });
});
