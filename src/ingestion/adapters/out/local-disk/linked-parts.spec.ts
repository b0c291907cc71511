import { appendFile, mkdtemp, readdir, readFile, rename, rm, symlink, truncate } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { DataDirectoryView } from '../../../../testing/data-directory.view.js';
import { GatedDisk } from '../../../../testing/gated-disk.js';
import { anUploadDraft, storeUpload } from '../../../../testing/upload-draft.builder.js';
import { LocalDiskFileStorage } from './local-disk.file-storage.adapter.js';

let base: string;
let view: DataDirectoryView;
let disk: GatedDisk;
let storage: LocalDiskFileStorage;
let warnings: string[];

const open = async (): Promise<void> => {
  disk = new GatedDisk();
  storage = await LocalDiskFileStorage.open({ directory: view.directory, disk, logger: { warn: (message) => warnings.push(message) } });
};

/** Makes a store whose directories of one kind are links to directories elsewhere. */
beforeEach(async () => {
  warnings = [];
  base = await mkdtemp(join(tmpdir(), 'linked-parts-'));
  view = new DataDirectoryView(join(base, 'data'));
  await open();
  await storage.close();
  for (const top of ['uploads', 'files']) {
    const part = view.at(`${top}/kind=historical`);
    await rename(part, join(base, top));
    await symlink(join(base, top), part);
  }
  await open();
});
afterEach(async () => {
  await storage.close();
  await rm(base, { recursive: true });
});

it('restores files and cuts off torn lines after a crash', async () => {
  const { content } = await storeUpload(storage, anUploadDraft().file('bytes').build());
  await disk.die();
  const [segment = ''] = await view.files('uploads/kind=historical/');
  const lines = await readFile(view.at(segment), 'utf8');
  await appendFile(view.at(segment), 'torn');
  const path = view.at(content?.path ?? '');
  await truncate(path, 0);
  await open();
  expect(await readFile(path, 'utf8')).toBe('bytes');
  expect(await readFile(view.at(segment), 'utf8')).toBe(lines);
  expect(await view.files('pending')).toEqual([]);
  expect(warnings).toEqual([]);
});

it('completes a removal after a crash', async () => {
  const { uploadId } = await storeUpload(storage, anUploadDraft().file('bytes').build());
  const rewrite = disk.holdNext('create');
  const { gate } = disk;
  disk.gate = (perform, operation, path) => (path.endsWith('.rewritten') ? gate(perform, operation, path) : perform());
  void storage.storedUploads.remove(uploadId);
  await rewrite.reached;
  await disk.die();
  await open();
  const [segment = ''] = await view.files('uploads/kind=historical/');
  expect(await readFile(view.at(segment), 'utf8')).toBe('');
  expect(await view.files('files/kind=historical/')).toEqual([]);
  expect(await view.files('pending')).toEqual([expect.stringMatching(/[.]emptied$/)]);
  expect(warnings).toEqual([]);
});

it('removes the empty segment that a removal has left, and its day, some minutes later', async () => {
  await storeUpload(storage, anUploadDraft().build());
  expect(await storage.storedUploads.removeAll({})).toBe(1);
  await storage.close();
  vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 10 * 60_000 });
  await open();
  vi.useRealTimers();
  expect(await readdir(view.at('uploads/kind=historical/'))).toEqual([]);
  expect(await view.files('pending')).toEqual([]);
  expect(warnings).toEqual([]);
});
