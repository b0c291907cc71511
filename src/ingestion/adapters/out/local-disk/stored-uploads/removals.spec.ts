import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { DataDirectoryView } from '../../../../../testing/data-directory.view.js';
import { GatedDisk } from '../../../../../testing/gated-disk.js';
import { anUploadDraft, storeUpload } from '../../../../../testing/upload-draft.builder.js';
import { LocalDiskFileStorage } from '../local-disk.file-storage.adapter.js';

let view: DataDirectoryView;
let disk: GatedDisk;
let storage: LocalDiskFileStorage;
let warnings: string[];

const open = async (): Promise<LocalDiskFileStorage> => {
  const logger = { warn: (message: string) => warnings.push(message) };
  return (storage = await LocalDiskFileStorage.open({ directory: view.directory, disk, logger }));
};
const remove = (uploadId: string): Promise<boolean> => storage.storedUploads.remove(uploadId);

beforeEach(async () => {
  warnings = [];
  view = new DataDirectoryView(await mkdtemp(join(tmpdir(), 'removals-')));
  disk = new GatedDisk();
  await open();
});
afterEach(async () => {
  await storage.close();
  await rm(view.directory, { recursive: true });
});

it('removes an upload while the search for an unknown id still goes on', async () => {
  const { uploadId } = await storeUpload(storage, anUploadDraft().build());
  const search = disk.holdNext('open');
  const unknown = remove(anUploadDraft().build().uploadId);
  await search.reached;
  expect(await remove(uploadId)).toBe(true);
  search.release();
  expect(await unknown).toBe(false);
});

it('removes an upload once, although two callers found it at the same time', async () => {
  const { uploadId } = await storeUpload(storage, anUploadDraft().file('bytes').build());
  expect((await Promise.all([remove(uploadId), remove(uploadId)])).sort()).toEqual([false, true]);
  expect(await view.lines()).toEqual([]);
});

it('does not count an upload as removed that was found before all of its customer were removed', async () => {
  const { uploadId, customerId } = await storeUpload(storage, anUploadDraft().build());
  const search = disk.holdNext('file.close');
  const late = remove(uploadId);
  await search.reached;
  expect(await storage.storedUploads.removeAll({ customerId })).toBe(1);
  search.release();
  expect(await late).toBe(false);
});

it('goes on writing to the same segment after removals that do not concern it', async () => {
  const [removed] = [await storeUpload(storage, anUploadDraft().build()), await storeUpload(storage, anUploadDraft().with({ kind: 'nowcast' }).build())];
  const nowcasts = () => view.files('uploads/kind=nowcast');
  expect(await nowcasts()).toHaveLength(1);
  expect(await remove(removed.uploadId)).toBe(true);
  expect(await storage.storedUploads.removeAll({ customerId: 'another' })).toBe(0);
  expect(await storage.storedUploads.removeAll({ to: new Date(0) })).toBe(0);
  await storage.store(anUploadDraft().with({ kind: 'nowcast' }).build());
  expect(await nowcasts()).toHaveLength(1);
  expect(await view.lines()).toHaveLength(2);
});
