import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { UploadDraftBuilder } from '../../../../../testing/upload-draft.builder.js';
import { LocalDiskFileStorage } from '../local-disk.file-storage.adapter.js';

const KIB = 1024;
const MIB = 1024 * KIB;
const DOWNLOADS = 40;

let directory: string;
let storage: LocalDiskFileStorage;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'file-bytes-'));
  storage = await LocalDiskFileStorage.open({ directory });
});
afterEach(async () => {
  await storage.close();
  await rm(directory, { recursive: true });
});

it.each([
  // The kernel buffers some MiB, so these clients may be slow.
  [4 * MIB, 0],
  [8 * MIB, 32 * MIB],
])('gives many clients that take %i bytes fast and then stop at most %i bytes and the shortest chunk of each', async (taken, shared) => {
  const draft = new UploadDraftBuilder().file(Buffer.alloc(16 * MIB)).build();
  await storage.store(draft);
  const upload = await storage.storedUploads.find(draft.uploadId);
  if (!upload) throw new Error('The upload was not found.');
  const downloads: AsyncIterator<Uint8Array>[] = [];
  let held = 0;
  for (let index = 0; index < DOWNLOADS; index++) {
    const download = (await storage.storedUploads.openContent(upload))?.[Symbol.asyncIterator]();
    if (!download) throw new Error('The file was not found.');
    downloads.push(download);
    let last = 0;
    for (let position = 0; position < taken; position += last) last = ((await download.next()).value as Uint8Array).length;
    held += last;
  }
  for (const download of downloads) await download.return?.();
  expect(held).toBeLessThanOrEqual(shared + DOWNLOADS * 16 * KIB);
});
