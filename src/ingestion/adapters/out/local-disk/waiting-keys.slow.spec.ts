import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { GatedDisk } from '../../../../testing/gated-disk.js';
import { anUploadDraft } from '../../../../testing/upload-draft.builder.js';
import { LocalDiskFileStorage } from './local-disk.file-storage.adapter.js';

let directory: string;
let disk: GatedDisk;
let storage: LocalDiskFileStorage;
let warnings: string[];

const store = (idempotencyKey: string) => storage.store(anUploadDraft().with({ idempotencyKey, receivedAt: new Date() }).build());

beforeEach(async () => {
  // Timers stand still while the uploads are stored, so that the test knows how many attempts to add keys there are.
  vi.useFakeTimers({ toFake: ['Date', 'setTimeout', 'clearTimeout'], now: Date.parse('2025-06-10T12:00:00Z') });
  warnings = [];
  directory = await mkdtemp(join(tmpdir(), 'waiting-keys-'));
  disk = new GatedDisk();
  storage = await LocalDiskFileStorage.open({ directory, disk, logger: { warn: (message) => warnings.push(message) } });
});
afterEach(async () => {
  await storage.close();
  vi.useRealTimers();
  await rm(directory, { recursive: true });
});

it('uploads are accepted again once the index of keys can be written, although 10,000 keys wait for it', async () => {
  await store('first');
  disk.gate = (perform, operation, path) =>
    operation === 'readDirectory' && path === join(directory, 'idempotency') ? Promise.reject(Object.assign(new Error('EMFILE: too many open files'), { code: 'EMFILE' })) : perform();
  const adding = disk.holdNext('readDirectory');
  vi.advanceTimersByTime(1_000);
  await adding.reached;
  await Promise.all(Array.from({ length: 9_999 }, (_, index) => store(`key ${index}`)));
  await expect(store('refused')).rejects.toMatchObject({ kind: 'storage-failure' });
  adding.release();
  // The first attempt has failed, and so has the one for which a timer was set.
  await vi.waitUntil(() => warnings.length === 2, { timeout: 10_000 });
  await expect(storage.checkHealth()).rejects.toMatchObject({ kind: 'storage-failure' });
  disk.gate = (perform) => perform();
  await vi.waitUntil(() => (vi.advanceTimersByTime(1_000), store('refused').catch(() => undefined)), { timeout: 10_000 });
  for (const key of ['first', 'refused']) expect(await store(key)).toMatchObject({ replayed: true });
});
