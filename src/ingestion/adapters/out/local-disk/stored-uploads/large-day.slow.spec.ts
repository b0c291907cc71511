import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { DAY_MS } from '../../../../../common/durations.js';
import { MIB } from '../../../../../common/sizes.js';
import { uuidAt } from '../../../../../common/uuid.js';
import { GatedDisk } from '../../../../../testing/gated-disk.js';
import { indexLine } from '../../../../domain/layout.js';
import type { UploadPosition } from '../../../../application/ports/stored-uploads.port.js';
import type { Upload } from '../../../../domain/upload.js';
import { LocalDiskFileStorage } from '../local-disk.file-storage.adapter.js';

const SEGMENTS = 4;
const LINES = 20_000;
const DAY = '2026-03-10';
const DAYS = 80;

let directory: string;
let disk: GatedDisk;
let storage: LocalDiskFileStorage;
const uploads: Upload[] = [];

/** The customer of every hundredth upload. */
const RARE = 'customer-2';

const uploadAt = (time: number, customerId = 'customer-1'): Upload => ({
  uploadId: uuidAt(new Date(time)),
  kind: 'nowcast',
  customerId,
  filename: 'load.csv',
  manufacturer: 'Acme',
  idempotencyKey: null,
  additionalData: 'x'.repeat(250),
  receivedAt: new Date(time + 2),
  content: null,
});

async function writeSegment(lines: readonly Upload[]): Promise<void> {
  const [{ uploadId, receivedAt }] = lines as [Upload];
  const day = join(directory, `uploads/kind=nowcast/date=${receivedAt.toISOString().slice(0, 10)}`);
  await mkdir(day, { recursive: true });
  await writeFile(join(day, `${uploadId}.ndjson`), lines.map((upload) => `${indexLine(upload)}\n`).join(''));
}

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'large-day-'));
  const begin = Date.parse(DAY);
  for (let day = 1; day < DAYS; day++) await writeSegment([uploadAt(begin - day * DAY_MS)]);
  for (let segment = 0; segment < SEGMENTS; segment++) {
    const lines = Array.from({ length: LINES }, (_, index) => {
      const time = begin + Math.floor(((segment * LINES + index) * DAY_MS) / (SEGMENTS * LINES));
      return index % 100 === 50 ? uploadAt(time, RARE) : uploadAt(time);
    });
    uploads.push(...lines);
    await writeSegment(lines);
  }
  disk = new GatedDisk();
  storage = await LocalDiskFileStorage.open({ directory, disk });
});
afterAll(async () => {
  await storage.close();
  await rm(directory, { recursive: true });
});

async function bytesReadBy(work: () => Promise<void>): Promise<number> {
  const before = disk.bytesRead;
  await work();
  return disk.bytesRead - before;
}

it('finds an upload in a day with many without reading more than a part of a segment', async () => {
  for (const upload of uploads.filter((_, index) => index % 9_999 === 0)) {
    expect(await bytesReadBy(async () => { expect(await storage.storedUploads.find(upload.uploadId)).toEqual(upload); })).toBeLessThan(2 * MIB);
  }
});

it('reports an unknown id without reading more than a part of some segments, once each segment was read', async () => {
  const missing = [10, 40_000, 79_000].map((index) => uuidAt(uploads[index]?.receivedAt ?? new Date()));
  for (const id of missing) expect(await storage.storedUploads.find(id)).toBeUndefined();
  for (const id of missing) {
    expect(await bytesReadBy(async () => { expect(await storage.storedUploads.find(id)).toBeUndefined(); })).toBeLessThan(2 * MIB);
  }
});

it.each<[string, number | undefined]>([['the newest', undefined], ['those before a time', 33_333]])('lists a page of %s without reading more than a part of some segments', async (_, end) => {
  const expected = uploads.slice(0, end).slice(-100).reverse().map(({ uploadId }) => uploadId);
  const to = end === undefined ? undefined : uploads[end]?.receivedAt;
  const bytes = await bytesReadBy(async () => {
    expect((await storage.storedUploads.list({ to }, 100)).uploads.map(({ uploadId }) => uploadId)).toEqual(expected);
  });
  expect(bytes).toBeLessThan(2 * MIB);
});

it('lists a page of a customer who has few uploads without reading more than a part of a segment', async () => {
  const expected = uploads.filter(({ customerId }) => customerId === RARE).slice(-10).reverse().map(({ uploadId }) => uploadId);
  const bytes = await bytesReadBy(async () => {
    expect((await storage.storedUploads.list({ customerId: RARE }, 10)).uploads.map(({ uploadId }) => uploadId)).toEqual(expected);
  });
  expect(bytes).toBeLessThan(2 * MIB);
});

it('lists the uploads of a customer who has none, in pages that each open a bounded number of segments and read at most 33 MiB', async () => {
  let opened = 0;
  disk.gate = (perform, operation, path) => {
    if (operation === 'open' && path.endsWith('.ndjson')) opened += 1;
    return perform();
  };
  let pages = 0;
  for (let next: UploadPosition | undefined; pages === 0 || next; pages++) {
    opened = 0;
    const bytes = await bytesReadBy(async () => {
      const page = await storage.storedUploads.list({ customerId: 'customer-3' }, 100, next);
      expect(page.uploads).toEqual([]);
      next = page.next ?? undefined;
    });
    expect(bytes).toBeLessThan(33 * MIB);
    // One that takes its first and last times, and one that reads its lines.
    expect(opened).toBeLessThanOrEqual(2 * 64);
  }
  disk.gate = (perform) => perform();
  expect(pages).toBeGreaterThan(1);
});

it.each([1, 10, 100, 1_000])('reads for a page of %i uploads at most 16 KiB more than twice their lines', async (limit) => {
  const lineBytes = indexLine(uploadAt(Date.parse(DAY))).length + 1;
  // The first page also reads the times of the day's segments, which are remembered.
  await storage.storedUploads.list({}, limit);
  const bytes = await bytesReadBy(async () => { expect((await storage.storedUploads.list({}, limit)).uploads).toHaveLength(limit); });
  expect(bytes).toBeLessThan(2 * limit * lineBytes + 16 * 1024);
});
