import { mkdtemp, readFile, rename, rm } from 'node:fs/promises';
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
/** A volume that doesn't limit the number of files. */
const volume = (free: number, size = 100 * GIB): DiskSpace => ({ free, size, freeFiles: 0, files: 0 });
const ENOUGH = volume(GIB);
const SHORT = volume(100 * MIB);

let view: DataDirectoryView;
let disk: GatedDisk;
let storage: LocalDiskFileStorage;

/** Changes the space that is left, and lets the second pass after which it is measured again. */
async function leave(space: DiskSpace): Promise<void> {
  disk.space = space;
  await vi.advanceTimersByTimeAsync(1_000);
}

const health = (): Promise<'healthy' | 'unhealthy'> => storage.checkHealth().then(() => 'healthy', () => 'unhealthy');

async function stored(draft: UploadDraftBuilder): Promise<'stored' | { kind: string; reason: string }> {
  try {
    await storeUpload(storage, draft.build());
    return 'stored';
  } catch (error) {
    const { kind, cause } = error as ServiceError;
    return { kind, reason: (cause as Error).message };
  }
}

const refused = (free: number, reserve = 128) => ({
  kind: 'storage-failure',
  reason: `The volume of ${view.directory} has ${free} MiB free, and ${reserve} MiB are reserved for removals: enlarge it, or remove uploads`,
});

async function* mebibytes(count: number): AsyncGenerator<Uint8Array> {
  for (let index = 0; index < count; index++) yield await Promise.resolve(Buffer.alloc(MIB));
}

beforeEach(async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
  view = new DataDirectoryView(await mkdtemp(join(tmpdir(), 'space-')));
  disk = new GatedDisk();
  disk.space = ENOUGH;
  storage = await LocalDiskFileStorage.open({ directory: view.directory, disk, logger: { warn: () => undefined } });
});
afterEach(async () => {
  await storage.close();
  expect(vi.getTimerCount()).toBe(0);
  vi.useRealTimers();
  await rm(view.directory, { recursive: true });
});

describe.each<[string, () => UploadDraftBuilder]>([
  ['an upload without a file', () => anUploadDraft()],
  ['a small file', () => anUploadDraft().file('bytes')],
  ['a large file', () => anUploadDraft().file(Buffer.alloc(100_000))],
])('%s', (_, draft) => {
  it.each<[string, DiskSpace, ((free: number, reserve: number) => object) | undefined]>([
    ['more than 128 MiB', volume(130 * MIB), undefined],
    ['less than 128 MiB', volume(127.5 * MIB), refused],
    ['more than a tenth of a small volume', volume(7 * MIB, 64 * MIB), undefined],
    ['less than a tenth of a small volume', volume(6.2 * MIB, 64 * MIB), refused],
    ['an unknown amount', volume(0, 0), undefined],
  ])('is refused while the store is unhealthy, with %s left', async (__, space, refusal) => {
    await leave(space);
    expect(await health()).toBe(refusal ? 'unhealthy' : 'healthy');
    expect(await stored(draft())).toEqual(refusal ? refusal(Math.floor(space.free / MIB), Math.min(128, Math.floor(space.size / MIB / 10))) : 'stored');
    expect(await view.lines()).toHaveLength(refusal ? 0 : 1);
    expect(await view.files('staging')).toEqual([]);
  });
});

it.each<[string, (megabytes: number) => UploadDraftBuilder, number]>([
  ['lines', (megabytes) => anUploadDraft().with({ additionalData: 'x'.repeat(megabytes * MIB) }), 5],
  ['lines that become long', (megabytes) => anUploadDraft().with({ additionalData: '\0'.repeat(megabytes * MIB * 0.25) }), 5],
  ['files that are sent in one piece', () => anUploadDraft().file(Buffer.alloc(60_000)), 80],
  ['large files', (megabytes) => anUploadDraft().with({ bytes: mebibytes(megabytes) }), 5],
])('counts the bytes of %s until the space is measured again', async (_, draft, most) => {
  await leave(volume(132 * MIB));
  let count = 0;
  while (count <= most && (await stored(draft(1))) === 'stored') count++;
  expect(count).toBeGreaterThan(1);
  expect(count).toBeLessThan(most);
  await leave(ENOUGH);
  expect([await health(), await stored(draft(1))]).toEqual(['healthy', 'stored']);
});

it.each<[string, number, number, object | undefined]>([
  ['more than 10,000', 10_001, 1_000_000, undefined],
  ['less than 10,000', 9_999, 1_000_000, { free: '9999', reserve: '10000' }],
  ['more than a tenth', 101, 1_000, undefined],
  ['less than a tenth', 99, 1_000, { free: '99', reserve: '100' }],
])('refuses uploads while the store is unhealthy, with %s files left', async (_, freeFiles, files, refusal) => {
  await leave({ ...ENOUGH, freeFiles, files });
  expect(await health()).toBe(refusal ? 'unhealthy' : 'healthy');
  const result = await stored(anUploadDraft().file('bytes'));
  const found = typeof result === 'string' ? undefined : / has (?<free>\d+) files free, and (?<reserve>\d+) files are reserved for removals/.exec(result.reason)?.groups;
  expect(found).toEqual(refusal);
});

it.each([5, 20_000, 100_000])('counts files of %i bytes until the space is measured again', async (length) => {
  await leave({ ...ENOUGH, freeFiles: 104, files: 1_000 });
  let count = 0;
  while (count <= 10 && (await stored(anUploadDraft().file(Buffer.alloc(length)))) === 'stored') count++;
  expect(count).toBe(4);
  expect(await stored(anUploadDraft().file(Buffer.alloc(length)))).toMatchObject({ reason: expect.stringContaining(' has 100 files free') as string });
});

it.each([
  ['half of the reserve of a small volume', volume(60 * MIB, 100 * MIB), 5 * MIB],
  ['64 MiB on a large one', volume(50 * GIB), 64 * MIB],
])('has segments of at most %s, unless one has a single long line', async (_, space, most) => {
  await leave(space);
  const long = (length: number) => anUploadDraft().with({ additionalData: '\0'.repeat(length) });
  for (const length of [0.3 * MIB, 0.3 * MIB, MIB, 0.1 * MIB, 0.1 * MIB]) expect(await stored(long(length))).toBe('stored');
  const segments = await Promise.all((await view.files('uploads')).map((path) => readFile(view.at(path), 'utf8')));
  expect(segments).toHaveLength(most < 10 * MIB ? 3 : 1);
  for (const segment of segments) expect(segment.length <= most || segment.split('\n').length === 2).toBe(true);
});

it('is unhealthy when hardly any upload fits', async () => {
  await leave(volume(128 * MIB + 100));
  expect([await stored(anUploadDraft()), await health()]).toEqual([refused(128), 'unhealthy']);
});

it('ends an upload for which there is not enough space, and keeps nothing of it', async () => {
  await leave(volume(150 * MIB));
  expect(await stored(anUploadDraft().with({ bytes: mebibytes(32) }))).toMatchObject({ kind: 'storage-failure' });
  expect([await view.lines(), await view.files('files'), await view.files('staging')]).toEqual([[], [], []]);
});

it('repeats the answer of an upload under its key, removes uploads, and stores again when there is space', async () => {
  const keyed = () => anUploadDraft().with({ idempotencyKey: 'key' }).file('bytes');
  const { uploadId, customerId } = await storeUpload(storage, keyed().build());
  await leave(SHORT);
  expect((await storage.store(keyed().build())).uploadId).toBe(uploadId);
  expect(await storage.storedUploads.removeAll({ customerId })).toBe(1);
  expect(await stored(keyed())).toEqual(refused(100));
  await leave(ENOUGH);
  expect(await stored(keyed())).toBe('stored');
});

it('takes uploads while a removal uses the reserve', async () => {
  const { uploadId } = await storeUpload(storage, anUploadDraft().build());
  const step = disk.holdNext('rename');
  const removal = storage.storedUploads.remove(uploadId);
  await step.reached;
  await leave(SHORT);
  expect([await health(), await stored(anUploadDraft().with({ kind: 'nowcast' }))]).toEqual(['healthy', 'stored']);
  step.release();
  expect(await removal).toBe(true);
  expect([await health(), await stored(anUploadDraft())]).toEqual(['unhealthy', refused(100)]);
});

it('removes uploads after the store was away, although there is no space left', async () => {
  const { uploadId } = await storeUpload(storage, anUploadDraft().build());
  await rename(view.at('uploads'), view.at('elsewhere'));
  expect(await health()).toBe('unhealthy');
  disk.space = SHORT;
  await rename(view.at('elsewhere'), view.at('uploads'));
  await expect.poll(() => storage.storedUploads.remove(uploadId).catch(() => 'away')).toBe(true);
  expect([await health(), await stored(anUploadDraft())]).toEqual(['unhealthy', refused(100)]);
});
