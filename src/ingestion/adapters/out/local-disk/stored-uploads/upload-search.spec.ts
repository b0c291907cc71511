import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { uuidAt } from '../../../../../common/uuid.js';
import { GatedDisk } from '../../../../../testing/gated-disk.js';
import { anUploadDraft, storeUpload } from '../../../../../testing/upload-draft.builder.js';
import type { UploadDraft } from '../../../../application/ports/file-storage.port.js';
import { LocalDiskFileStorage } from '../local-disk.file-storage.adapter.js';

const RECEIVED_AT = new Date('2026-03-10T12:00:00Z');
/** The lines of uploads that began at this time can only be found by a scan of all lines of the day. */
const LONG_BEFORE = new Date('2026-03-10T02:00:00Z');

let directory: string;
let disk: GatedDisk;
let storage: LocalDiskFileStorage;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'upload-search-'));
  disk = new GatedDisk();
  storage = await LocalDiskFileStorage.open({ directory, disk });
});
afterEach(async () => {
  await storage.close();
  expect(disk.openFiles).toEqual([]);
  await rm(directory, { recursive: true });
});

function slowDraft(): UploadDraft {
  const draft = anUploadDraft().with({ receivedAt: RECEIVED_AT }).build();
  const uploadId = uuidAt(LONG_BEFORE);
  return { ...draft, uploadId, conclude: async (stored) => ({ ...(await draft.conclude(stored)), uploadId }) };
}

const find = async (uploadId: string): Promise<string | undefined> => (await storage.storedUploads.find(uploadId))?.uploadId;

it('reads all lines of a day for one missing or slow upload at a time, while other uploads are found', async () => {
  const usual = await storeUpload(storage, anUploadDraft().with({ receivedAt: RECEIVED_AT }).build());
  const slow = await storeUpload(storage, slowDraft());
  let opened = 0;
  disk.gate = (perform, operation, path) => {
    if (operation === 'open' && path.endsWith('.ndjson')) opened += 1;
    return perform();
  };
  const first = disk.holdNext('file.read');

  let answered = 0;
  const scans = [uuidAt(LONG_BEFORE), uuidAt(LONG_BEFORE), slow.uploadId, uuidAt(LONG_BEFORE)].map(async (uploadId) => {
    const found = await find(uploadId);
    answered += 1;
    return found;
  });
  await first.reached;
  expect(await find(usual.uploadId)).toBe(usual.uploadId);
  expect({ opened, answered }).toEqual({ opened: 2, answered: 0 });

  first.release();
  expect(await Promise.all(scans)).toEqual([undefined, undefined, slow.uploadId, undefined]);
  expect({ opened, answered }).toEqual({ opened: 5, answered: 4 });
});

it('reads no line for a missing upload that would have taken longer than each upload of the day', async () => {
  await storeUpload(storage, anUploadDraft().with({ receivedAt: RECEIVED_AT }).build());
  const before = disk.bytesRead;
  expect(await find(uuidAt(LONG_BEFORE))).toBeUndefined();
  expect(disk.bytesRead).toBe(before);
});

it('finds a slow upload after a restart, even if a line of its segment is not valid', async () => {
  const slow = await storeUpload(storage, slowDraft());
  const usual = await storeUpload(storage, anUploadDraft().with({ receivedAt: RECEIVED_AT }).build());
  const restart = async (): Promise<void> => {
    await storage.close();
    storage = await LocalDiskFileStorage.open({ directory, disk });
  };
  await restart();
  expect(await find(slow.uploadId)).toBe(slow.uploadId);

  await storage.close();
  const [segment] = (await readdir(directory, { recursive: true })).filter((name) => name.endsWith('.ndjson'));
  const path = join(directory, segment ?? '');
  await writeFile(path, `not a line\n${await readFile(path, 'utf8')}`);
  storage = await LocalDiskFileStorage.open({ directory, disk });
  expect([await find(slow.uploadId), await find(usual.uploadId), await find(uuidAt(LONG_BEFORE))]).toEqual([slow.uploadId, usual.uploadId, undefined]);
});

it('goes on with the next upload after a scan has failed', async () => {
  await storeUpload(storage, slowDraft());
  disk.failNext('file.read');
  const outcomes = await Promise.allSettled([find(uuidAt(LONG_BEFORE)), find(uuidAt(LONG_BEFORE))]);
  // Which of the two is scanned for first is up to the threads that read directories.
  expect(outcomes).toContainEqual({ status: 'rejected', reason: expect.objectContaining({ kind: 'storage-failure' }) as unknown });
  expect(outcomes).toContainEqual({ status: 'fulfilled', value: undefined });
});
