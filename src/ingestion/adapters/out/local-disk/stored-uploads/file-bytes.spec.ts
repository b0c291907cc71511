import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { isEachCaseTried } from '../../../../../../test/support/cases.js';
import { KIB, MIB } from '../../../../../common/sizes.js';
import { UploadDraftBuilder } from '../../../../../testing/upload-draft.builder.js';
import { LocalDiskFileStorage } from '../local-disk.file-storage.adapter.js';

/** The bytes that each client takes, the number of clients, and how many bytes all of them may hold together. */
const CASES: [taken: number, clients: number, shared: number][] = [
  // The kernel buffers some MiB, so these clients may be slow.
  [4 * MIB, 4, 0],
];
if (isEachCaseTried) CASES.push([8 * MIB, 40, 32 * MIB]);

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

it.each(CASES)('gives clients that take %i bytes fast and then stop (%i clients) at most %i bytes and the shortest chunk of each', async (taken, clients, shared) => {
  const draft = new UploadDraftBuilder().file(Buffer.alloc(16 * MIB)).build();
  await storage.store(draft);
  const upload = await storage.storedUploads.find(draft.uploadId);
  if (!upload) throw new Error('The upload was not found.');
  const downloads: AsyncIterator<Uint8Array>[] = [];
  let held = 0;
  for (let index = 0; index < clients; index++) {
    const download = (await storage.storedUploads.openContent(upload))?.[Symbol.asyncIterator]();
    if (!download) throw new Error('The file was not found.');
    downloads.push(download);
    let last = 0;
    for (let position = 0; position < taken; position += last) last = ((await download.next()).value as Uint8Array).length;
    held += last;
  }
  for (const download of downloads) await download.return?.();
  expect(held).toBeLessThanOrEqual(shared + clients * 16 * KIB);
});
