import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { ServiceError } from '../../../../common/service-error.js';
import { MIB } from '../../../../common/sizes.js';
import { DataDirectoryView } from '../../../../testing/data-directory.view.js';
import { GatedDisk } from '../../../../testing/gated-disk.js';
import { anUploadDraft, storeUpload, type UploadDraftBuilder } from '../../../../testing/upload-draft.builder.js';
import type { DiskSpace } from './disk.js';
import { LocalDiskFileStorage } from './local-disk.file-storage.adapter.js';

const GIB = 1024 * MIB;
const ENOUGH = { free: GIB, size: 100 * GIB };
const SHORT = { free: 100 * MIB, size: 100 * GIB };
/** More than is written between two measurements. */
const LARGE = 40;

let view: DataDirectoryView;
let disk: GatedDisk;
let storage: LocalDiskFileStorage;

/** Changes the space that is left, and opens the store again: it reuses the result of a health check for a second. */
async function leave(space: DiskSpace): Promise<'healthy' | 'unhealthy'> {
  disk.space = space;
  await storage.close();
  storage = await LocalDiskFileStorage.open({ directory: view.directory, disk });
  return storage.checkHealth().then(() => 'healthy', () => 'unhealthy');
}

async function stored(draft: UploadDraftBuilder): Promise<'stored' | { kind: string; reason: string }> {
  try {
    await storeUpload(storage, draft.build());
    return 'stored';
  } catch (error) {
    const { kind, cause } = error as ServiceError;
    return { kind, reason: (cause as Error).message };
  }
}

beforeEach(async () => {
  view = new DataDirectoryView(await mkdtemp(join(tmpdir(), 'space-')));
  disk = new GatedDisk();
  storage = await LocalDiskFileStorage.open({ directory: view.directory, disk });
});
afterEach(async () => {
  await storage.close();
  await rm(view.directory, { recursive: true });
});

const mebibytes = (count: number, onEach: (index: number) => void = () => undefined) =>
  (async function* () {
    for (let index = 0; index < count; index++) {
      onEach(index);
      yield await Promise.resolve(Buffer.alloc(MIB));
    }
  })();

describe.each<[string, () => UploadDraftBuilder]>([
  ['an upload without a file', () => anUploadDraft()],
  ['a small file', () => anUploadDraft().file('bytes')],
  ['a large file', () => anUploadDraft().with({ bytes: mebibytes(LARGE) })],
])('%s', (_, draft) => {
  it.each<[string, DiskSpace, 'healthy' | 'unhealthy']>([
    ['more than 128 MiB', { free: 129 * MIB, size: 100 * GIB }, 'healthy'],
    ['less than 128 MiB', { free: 127 * MIB, size: 100 * GIB }, 'unhealthy'],
    ['more than a tenth of a small volume', { free: 7 * MIB, size: 64 * MIB }, 'healthy'],
    ['less than a tenth of a small volume', { free: 6 * MIB, size: 64 * MIB }, 'unhealthy'],
    ['an unknown amount', { free: 0, size: 0 }, 'healthy'],
  ])('is stored only while the store is healthy, with %s left', async (__, space, health) => {
    expect(await leave(space)).toBe(health);
    const reason = `The volume of ${view.directory} has ${space.free / MIB} MiB free, and ${Math.min(128, Math.floor(space.size / MIB / 10))} MiB are reserved for removals: enlarge it, or remove uploads`;
    expect(await stored(draft())).toEqual(health === 'healthy' ? 'stored' : { kind: 'storage-failure', reason });
    expect(await view.lines()).toHaveLength(health === 'healthy' ? 1 : 0);
    expect(await view.files('staging')).toEqual([]);
  });
});

it('ends an upload during which space runs out, and keeps nothing of it', async () => {
  await leave(ENOUGH);
  const ended = await stored(anUploadDraft().with({ bytes: mebibytes(1024, (index) => { if (index === LARGE) disk.space = SHORT; }) }));
  expect(ended).toMatchObject({ kind: 'storage-failure' });
  expect([await view.lines(), await view.files('files'), await view.files('staging')]).toEqual([[], [], []]);
});

it('notices within a second that there is no space left, and that there is some again', async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
  try {
    await leave(ENOUGH);
    for (const [space, expected] of [[SHORT, { kind: 'storage-failure' }], [ENOUGH, 'stored']] as const) {
      disk.space = space;
      await vi.advanceTimersByTimeAsync(1_000);
      expect(await stored(anUploadDraft())).toEqual(typeof expected === 'string' ? expected : expect.objectContaining(expected));
    }
  } finally {
    vi.useRealTimers();
  }
});

it('repeats the answer of an upload under its key, removes uploads, and stores again when there is space', async () => {
  await leave(ENOUGH);
  const keyed = (bytes: string) => anUploadDraft().with({ idempotencyKey: 'key' }).file(bytes);
  const { uploadId, customerId } = await storeUpload(storage, keyed('bytes').build());
  expect(await leave(SHORT)).toBe('unhealthy');
  expect((await storage.store(keyed('bytes').build())).uploadId).toBe(uploadId);
  expect(await storage.storedUploads.removeAll({ customerId })).toBe(1);
  expect(await stored(keyed('bytes'))).toMatchObject({ kind: 'storage-failure' });
  expect(await leave(ENOUGH)).toBe('healthy');
  expect(await stored(keyed('bytes'))).toBe('stored');
});
