import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { uuidAt } from '../../../../../common/uuid.js';
import { listed } from '../../../../../testing/stored-uploads.calls.js';
import { indexLine, segmentDirectory } from '../../../../domain/layout.js';
import type { Upload } from '../../../../domain/upload.js';
import { LocalDiskFileStorage } from '../local-disk.file-storage.adapter.js';

const BEGIN = Date.parse('2026-03-10T02:00:00Z');

let directory: string;
let storage: LocalDiskFileStorage;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'damaged-lines-'));
});
afterEach(async () => {
  await storage.close();
  await rm(directory, { recursive: true });
});

/** An upload of each second, the oldest first. */
const uploadsOf = (count: number, additionalData: string | null): Upload[] =>
  Array.from({ length: count }, (_, index) => {
    const receivedAt = new Date(BEGIN + index * 1_000);
    return { uploadId: uuidAt(receivedAt), kind: 'nowcast', customerId: 'customer-1', filename: 'load.csv', manufacturer: 'Acme', idempotencyKey: null, additionalData, receivedAt, content: null };
  });

async function openWith(lines: readonly string[]): Promise<void> {
  const segment = join(directory, segmentDirectory('nowcast', new Date(BEGIN)));
  await mkdir(segment, { recursive: true });
  await writeFile(join(segment, `${uuidAt(new Date(BEGIN))}.ndjson`), lines.map((line) => `${line}\n`).join(''));
  storage = await LocalDiskFileStorage.open({ directory });
}

const listedIds = async (limit: number): Promise<string[]> => (await listed(storage.storedUploads, {}, limit)).map(({ uploadId }) => uploadId).reverse();

it('lists and finds all uploads between lines that are damaged', async () => {
  const uploads = uploadsOf(8_000, null);
  const isDamaged = (index: number): boolean => index % 37 === 36;
  await openWith(uploads.map((upload, index) => (isDamaged(index) ? indexLine(upload).replace('{', '[') : indexLine(upload))));
  const ids = uploads.filter((_, index) => !isDamaged(index)).map(({ uploadId }) => uploadId);
  expect(await listedIds(50)).toEqual(ids);
  for (const id of ids.filter((_, index) => index % 499 === 0)) expect((await storage.storedUploads.find(id))?.uploadId).toBe(id);
});

it.each([1, 2, 3])('lists all uploads behind lines that are damaged in their middle, in pages of %i', async (limit) => {
  const uploads = uploadsOf(6, 'x'.repeat(4_000));
  const isDamaged = (index: number): boolean => index === 3 || index === 5;
  await openWith(uploads.map((upload, index) => (isDamaged(index) ? indexLine(upload).replace('xxx', 'x"x') : indexLine(upload))));
  expect(await listedIds(limit)).toEqual(uploads.filter((_, index) => !isDamaged(index)).map(({ uploadId }) => uploadId));
});
