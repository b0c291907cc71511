import { EventEmitter } from 'node:events';
import { mkdir, mkdtemp, readFile, rm, statfs, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import type { NestExpressApplication } from '@nestjs/platform-express';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { createApp } from '../../src/app/index.js';
import { processMemory } from '../../src/common/memory-budget.js';
import { Turns } from '../../src/common/turns.js';
import { bodyPace } from '../../src/http/body-pace.js';
import { decodingSlots } from '../../src/http/decoding-slots.js';
import { ObjectStorageFileStorage } from '../../src/ingestion/adapters/out/object-storage/object-storage.file-storage.adapter.js';
import { ObservedBucket } from '../../src/ingestion/adapters/out/object-storage/observed-bucket.js';
import { measuredBucket } from '../../src/operations/metrics/measured-calls.js';
import { measuredFlush } from '../../src/operations/metrics/measured-file-storage.js';
import { Metrics } from '../../src/operations/metrics/metrics.js';
import { TokenIssuer } from '../../src/identity-management/adapters/out/embedded/token-issuer.js';
import type { NewRole, ProviderCallOptions, UploadDraft, UploadReceipt } from '../../src/index.js';
import { InMemoryBucket, InMemoryFileStorage, InMemoryIdentityProvider } from '../../src/testing/index.js';
import { deferred } from '../support/deferred.js';
import { writeSigningKeys } from '../support/signing-keys.js';
import { SlowUpload } from '../support/slow-upload.js';

const UPLOAD = '/ingestHistoricalLoadData/upload_historical?customer_id=a&filename=b.csv&manufacturer=c';

/** A store whose uploads wait until `open`. */
class SlowStorage extends InMemoryFileStorage {
  open = (): void => undefined;
  private gate = Promise.resolve();

  shut(): void {
    this.gate = new Promise((resolve) => { this.open = resolve; });
  }

  override async store(draft: UploadDraft): Promise<UploadReceipt> {
    await this.gate;
    return super.store(draft);
  }
}

/**
 * An identity provider that can report warnings, as Keycloak does for a realm with a small misconfiguration, and whose
 * new roles wait until `open`.
 */
class SlowIdentityProvider extends InMemoryIdentityProvider {
  reported: readonly string[] = [];
  open = (): void => undefined;
  private opened = Promise.resolve();

  override get warnings(): readonly string[] {
    return this.reported;
  }

  shut(): void {
    this.opened = new Promise((resolve) => { this.open = resolve; });
  }

  override async createRole(role: NewRole, options: ProviderCallOptions): Promise<string> {
    await this.opened;
    return super.createRole(role, options);
  }
}

let directory: string;
let storage: SlowStorage;
let provider: SlowIdentityProvider;
let app: NestExpressApplication;
let url: string;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'load-data-'));
  await writeSigningKeys(directory);
  [storage, provider] = [new SlowStorage(), new SlowIdentityProvider()];
  app = await createApp({ fileStorage: storage, identityProvider: provider, environment: { DATA_DIR: directory, LOG_LEVEL: 'silent' } });
  await app.listen(0, '127.0.0.1');
  url = await app.getUrl();
});
afterEach(async () => {
  vi.useRealTimers();
  await app.close();
  await rm(directory, { recursive: true, force: true });
});

const read = async (): Promise<string> => (await fetch(`${url}/metrics`)).text();

/** The values of a metric, by its labels as they are written. */
async function values(name: string): Promise<Record<string, number>> {
  const lines = [...(await read()).matchAll(new RegExp(`^${name}(?:\\{(.*)\\})? (.*)$`, 'gm'))];
  return Object.fromEntries(lines.map(([, labels = '', value]) => [labels, Number(value)]));
}

async function createRole(): Promise<Response> {
  const token = await app.get(TokenIssuer, { strict: false }).administratorToken();
  const headers = { Authorization: `Bearer ${token}`, 'Content-Type': 'application/json' };
  return fetch(`${url}/idpManagementBackend/create-role`, { method: 'POST', headers, body: '{"role_name":"Auditor","permissions":["read:users"]}' });
}

const state = (dependency: string, current: string) =>
  Object.fromEntries(['up', 'degraded', 'down'].map((each) => [`dependency="${dependency}",state="${each}"`, each === current ? 1 : 0]));

describe('the metrics show', () => {
  it.each<[string, string, string, number, () => void]>([
    ['healthy dependencies', 'up', 'up', 1, () => undefined],
    ['an identity provider that is degraded', 'up', 'degraded', 1, () => { provider.reported = ['A scope is missing.']; }],
    ['an identity provider that is down', 'up', 'down', 0, () => { provider.failWith(new Error('no connection')); }],
    ['a store that is down', 'down', 'up', 0, () => { storage.failWith(new Error('disk full')); }],
  ])('%s', async (_name, store, identity, ready, change) => {
    change();
    expect(await values('load_data_dependency_state')).toEqual({ ...state('file_storage', store), ...state('identity_provider', identity) });
    expect(await values('load_data_ready')).toEqual({ '': ready });
    expect((await fetch(`${url}/health/ready`)).status).toBe(ready === 1 ? 200 : 503);
  });

  it('each way in which an upload can fail, at 0 before the first failure', async () => {
    const reasons = ['storage-failure', 'internal', 'client-aborted', 'request-timeout', 'payload-too-large', 'invalid-request-body', 'digest-mismatch', 'request-in-progress', 'idempotency-key-reused'];
    const series = ['historical', 'nowcast'].flatMap((kind) => reasons.map((reason) => [`kind="${kind}",reason="${reason}"`, 0]));
    expect(await values('load_data_upload_failures_total')).toEqual(Object.fromEntries(series));
  });

  it('the space on the volume of DATA_DIR, unless it is away', async () => {
    await mkdir(join(directory, 'staging'));
    const free = await values('load_data_disk_free_bytes');
    const size = await values('load_data_disk_size_bytes');
    expect([Object.keys(free), Object.keys(size)]).toEqual([['directory="DATA_DIR"'], ['directory="DATA_DIR"']]);
    expect(free['directory="DATA_DIR"']).toBeGreaterThan(0);
    expect(size['directory="DATA_DIR"']).toBeGreaterThan(free['directory="DATA_DIR"'] ?? NaN);
    await rm(directory, { recursive: true });
    expect([await values('load_data_disk_free_bytes'), await values('load_data_disk_size_bytes')]).toEqual([{}, {}]);
  });

  it.runIf(process.platform === 'linux')('the space on another volume once, by the first directory that is on it now', async () => {
    const other = await mkdtemp(resolve(directory.startsWith('/dev/shm/') ? 'dist' : '/dev/shm', 'volume-'));
    try {
      await mkdir(join(directory, 'files'));
      for (const part of ['files/kind=nowcast', 'events']) await symlink(other, join(directory, part));
      for (const metric of ['load_data_disk_free_bytes', 'load_data_disk_size_bytes']) {
        expect(Object.keys(await values(metric))).toEqual(['directory="DATA_DIR"', 'directory="DATA_DIR/files/kind=nowcast"']);
      }
      const { blocks, bsize } = await statfs(other);
      expect((await values('load_data_disk_size_bytes'))['directory="DATA_DIR/files/kind=nowcast"']).toBe(blocks * bsize);
      await rm(join(directory, 'files/kind=nowcast'));
      expect(Object.keys(await values('load_data_disk_free_bytes'))).toEqual(['directory="DATA_DIR"', 'directory="DATA_DIR/events"']);
    } finally {
      await rm(other, { recursive: true });
    }
  });

  it('how far the clock was set', async () => {
    expect(Math.abs((await values('load_data_clock_shift_seconds'))[''] ?? NaN)).toBeLessThan(1);
    vi.useFakeTimers({ now: Date.now() + 3_600_000, toFake: ['Date'] });
    expect(Math.round((await values('load_data_clock_shift_seconds'))[''] ?? NaN)).toBe(3_600);
  });

  it.each<[string, string, () => { shut(): void; open(): void }, () => Promise<Response>]>([
    ['uploads', 'load_data_uploads_in_progress', () => storage, () => fetch(url + UPLOAD, { method: 'POST', headers: { 'Content-Type': 'text/csv' }, body: 'a,b' })],
    ['calls to the identity provider', 'identity_provider_calls_in_progress', () => provider, createRole],
  ])('%s in progress', async (_name, metric, adapter, begin) => {
    adapter().shut();
    const before = (await values(metric))[''] ?? NaN;
    const request = begin();
    await expect.poll(() => values(metric), { interval: 5 }).toEqual({ '': before + 1 });
    adapter().open();
    expect((await request).ok).toBe(true);
    await expect.poll(() => values(metric), { interval: 5 }).toEqual({ '': before });
  });

  it('requests that wait for memory, and bodies that wait to be decoded', async () => {
    const holders = [processMemory.bytes, 1, 1].map((bytes) => {
      const held = processMemory.hold('text');
      void held.grow(bytes);
      return held;
    });
    const slots = Object.values(decodingSlots).flatMap((each) => Array.from({ length: 5 }, () => each.take(new EventEmitter())));
    // The first holder has all memory, and the second may exceed the budget.
    expect(await values('load_data_queue_length')).toMatchObject({ 'queue="body_memory"': 1, 'queue="decoding"': 2 });
    for (const held of holders) held.release();
    for (const slot of slots) (await slot)();
    expect(await values('load_data_queue_length')).toEqual({ 'queue="body_memory"': 0, 'queue="decoding"': 0, 'queue="body_chunks"': 0, 'queue="turns"': 0 });
  });

  it.each<[string, string, () => Promise<void> | undefined]>([
    ['chunks of long bodies', 'body_chunks', () => bodyPace.next({}, 2 * 1024 * 1024)],
    ['long computations', 'turns', () => new Turns().next()],
  ])('%s that wait for the event loop', async (_name, queue, wait) => {
    // Read without a request, which would take many iterations of the event loop.
    const length = async () => {
      const text = await app.get(Metrics, { strict: false }).registry.getSingleMetricAsString('load_data_queue_length');
      return Number(new RegExp(`queue="${queue}"\\} (\\d+)`).exec(text)?.[1]);
    };
    const waiting = Array.from({ length: 4 }, async () => { await wait(); });
    // The first chunk may go on at once.
    expect(await length()).toBeGreaterThan(2);
    await Promise.all(waiting);
    expect(await length()).toBe(0);
  });
});

describe('the metrics of a bucket', () => {
  let bucket: InMemoryBucket;

  const json = { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: '{"additional_data":"meter 7"}' };
  const file = { method: 'POST', headers: { 'Content-Type': 'text/csv' }, body: 'a,b' };
  /** Too long to be read whole before the call to the bucket begins. */
  const LONG = 'a'.repeat(100_000);

  beforeEach(async () => {
    await app.close();
    bucket = new InMemoryBucket();
    const fileStorage = {
      inject: [Metrics],
      useFactory: (metrics: Metrics) => new ObjectStorageFileStorage({ bucket: new ObservedBucket(bucket, measuredBucket(metrics).observeCall), onFlush: measuredFlush(metrics) }),
    };
    app = await createApp({ fileStorage, environment: { DATA_DIR: directory, LOG_LEVEL: 'silent' } });
    await app.listen(0, '127.0.0.1');
    url = await app.getUrl();
  });

  /** How many uploads of files to the bucket had each outcome. */
  const uploadCalls = async () => {
    const calls = Object.entries(await values('load_data_bucket_calls_total'));
    return Object.fromEntries<number>(calls.filter(([labels]) => labels.startsWith('operation="upload"')).map(([labels, count]) => [/outcome="(.*)"/.exec(labels)?.[1] ?? '', count]));
  };

  it('count calls that succeed, that the bucket fails, and that clients abort', async () => {
    expect((await fetch(url + UPLOAD, file)).status).toBe(200);
    expect(await uploadCalls()).toEqual({ ok: 1, failed: 0 });

    bucket.before = (operation) => {
      if (operation === 'upload') throw new Error('SlowDown');
    };
    expect((await fetch(url + UPLOAD, file)).status).toBe(500);
    expect(await uploadCalls()).toEqual({ ok: 1, failed: 1 });

    bucket.before = () => undefined;
    const wrongDigest = { 'X-Upload-Digest': `sha-256=:${Buffer.alloc(32).toString('base64')}:` };
    expect((await fetch(url + UPLOAD, { ...file, body: LONG, headers: { ...file.headers, ...wrongDigest } })).status).toBe(400);
    expect(await uploadCalls()).toEqual({ ok: 1, failed: 1, aborted: 1 });

    const client = await SlowUpload.begin(Number(new URL(url).port), LONG);
    await expect.poll(() => values('load_data_bucket_calls_in_progress'), { interval: 5 }).toEqual({ '': 1 });
    client.destroy();
    await expect.poll(uploadCalls, { interval: 5 }).toEqual({ ok: 1, failed: 1, aborted: 2 });
    await expect.poll(() => values('load_data_bucket_calls_in_progress'), { interval: 5 }).toEqual({ '': 0 });
  });

  it('count the lines that are written to the index', async () => {
    expect(await values('load_data_flushed_lines_total')).toEqual({ '': 0 });
    const answers = await Promise.all([json, json, file].map((request) => fetch(url + UPLOAD, request)));
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200]);
    expect(await values('load_data_flushed_lines_total')).toEqual({ '': 3 });
  });

  it('count the lines that wait while four segments are being written', async () => {
    const waiting = async () => (await values('load_data_queue_length'))['queue="index"'];
    const { promise, resolve: writeSegments } = deferred();
    bucket.before = (operation, key) => (operation === 'create' && key.startsWith('uploads/') ? promise : undefined);
    const uploads = Array.from({ length: 6 }, () => fetch(url + UPLOAD, json));
    await expect.poll(waiting, { interval: 5 }).toBe(2);
    writeSegments();
    expect((await Promise.all(uploads)).map(({ status }) => status)).toEqual(uploads.map(() => 200));
    expect(await waiting()).toBe(0);
  });
});

it('docs/monitoring.md describes each metric of the service, and no other', async () => {
  const page = await readFile('docs/monitoring.md', 'utf8');
  const names = [...(await read()).matchAll(/^# TYPE ((?!nodejs_|process_)\S+)/gm)].map(([, name = '']) => name);
  const described = [...page.matchAll(/^\| `([a-z_]+)`/gm)].map(([, name = '']) => name);
  expect(described.sort()).toEqual(names.sort());
});
