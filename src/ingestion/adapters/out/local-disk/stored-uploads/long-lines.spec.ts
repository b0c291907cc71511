import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { anUploadDraft, storeUpload } from '../../../../../testing/upload-draft.builder.js';
import { indexLine } from '../../../../domain/layout.js';
import { LocalDiskFileStorage } from '../local-disk.file-storage.adapter.js';

let directory: string;
let storage: LocalDiskFileStorage;
let held: number;

const memory = {
  take: (bytes: number): Promise<void> => {
    held += bytes;
    return Promise.resolve();
  },
  giveBack: (bytes: number): void => { held -= bytes; },
};

beforeEach(async () => {
  held = 0;
  directory = await mkdtemp(join(tmpdir(), 'long-lines-'));
  storage = await LocalDiskFileStorage.open({ directory });
});
afterEach(async () => {
  await storage.close();
  await rm(directory, { recursive: true });
});

it('hold no memory when a page is made, except those of the page', async () => {
  for (const length of [300_000, 600_000, 900_000]) await storeUpload(storage, anUploadDraft().with({ additionalData: 'x'.repeat(length) }).build());
  const { uploads } = await storage.storedUploads.list({}, 10, undefined, memory);
  expect(uploads).toHaveLength(3);
  expect(held).toBe(uploads.reduce((sum, upload) => sum + Buffer.byteLength(indexLine(upload)), 0));
});
