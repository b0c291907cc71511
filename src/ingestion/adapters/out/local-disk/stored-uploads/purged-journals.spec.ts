import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { DataDirectoryView } from '../../../../../testing/data-directory.view.js';
import { GatedDisk } from '../../../../../testing/gated-disk.js';
import { anUploadDraft, storeUpload } from '../../../../../testing/upload-draft.builder.js';
import { LocalDiskFileStorage } from '../local-disk.file-storage.adapter.js';

const REMOVED = 'the bytes of the removed upload';

let view: DataDirectoryView;
let disk: GatedDisk;
let storage: LocalDiskFileStorage;

const store = (text: string) => storeUpload(storage, anUploadDraft().file(text).build());
const remove = (uploadId: string): Promise<boolean> => storage.storedUploads.remove(uploadId);
const journals = async () => (await view.files('pending')).filter((path) => path.endsWith('.journal')).map((path) => view.at(path));

/** The journals that have bytes of the removed upload. */
async function leftovers(): Promise<string[]> {
  const paths = await journals();
  const contents = await Promise.all(paths.map((path) => readFile(path)));
  return paths.filter((_, index) => contents[index]?.includes(REMOVED));
}

/**
 * Stores small files until one journal is in use, and another waits for its next use. The latter still has the bytes of
 * the upload that is to be removed, behind those of another one.
 */
async function storeUntilOneIsIdle(): Promise<{ uploadId: string; idle: string }> {
  await store('first');
  const { uploadId } = await store(REMOVED);
  const [idle = ''] = await journals();
  while ((await journals()).length < 2) await store('more');
  await expect.poll(async () => (await readFile(idle))[0]).toBe(0);
  expect(await leftovers()).toEqual([idle]);
  return { uploadId, idle };
}

beforeEach(async () => {
  view = new DataDirectoryView(await mkdtemp(join(tmpdir(), 'purged-journals-')));
  disk = new GatedDisk();
  storage = await LocalDiskFileStorage.open({ directory: view.directory, disk, maxJournalBytes: 1_500 });
});
afterEach(async () => {
  await storage.close();
  expect(disk.openFiles).toEqual([]);
  await rm(view.directory, { recursive: true });
});

it('removes the bytes from a journal that waits for its next use, although small files are stored meanwhile', async () => {
  const { uploadId } = await storeUntilOneIsIdle();
  const sync = disk.holdNext('file.sync');
  const { gate } = disk;
  disk.gate = (perform, operation, path) => (path.startsWith(view.at('files')) ? gate(perform, operation, path) : perform());
  const removal = remove(uploadId);
  await sync.reached;
  const { content } = await store('x');
  sync.release();
  expect(await removal).toBe(true);
  expect(await leftovers()).toEqual([]);
  await disk.die();
  disk = new GatedDisk();
  storage = await LocalDiskFileStorage.open({ directory: view.directory, disk });
  expect(String(await view.bytes(content?.path ?? ''))).toBe('x');
});

it('rejects a removal if a journal could not be removed, and removes the journal when the removal is repeated', async () => {
  const { uploadId, idle } = await storeUntilOneIsIdle();
  let failures = 0;
  disk.gate = (perform, operation, path) => (operation === 'remove' && path === idle && failures++ === 0 ? Promise.reject(new Error('EIO')) : perform());
  await expect(remove(uploadId)).rejects.toMatchObject({ kind: 'storage-failure' });
  expect(await leftovers()).toEqual([idle]);
  await store('later');
  expect(await remove(uploadId)).toBe(true);
  expect(await journals()).toEqual([]);
});
