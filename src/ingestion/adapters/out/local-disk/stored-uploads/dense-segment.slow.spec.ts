import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { KIB } from '../../../../../common/sizes.js';
import { GatedDisk } from '../../../../../testing/gated-disk.js';
import { UploadDraftBuilder } from '../../../../../testing/upload-draft.builder.js';
import type { UploadPosition } from '../../../../application/ports/stored-uploads.port.js';
import { LocalDiskFileStorage } from '../local-disk.file-storage.adapter.js';

const BEGIN = Date.parse('2026-03-10T12:00:00Z');
/** All lines together have 4.7 MiB, and were received within 14 seconds. */
const LINES = 2_000;
const LINE_MS = 7;
const TEXT = 'x'.repeat(2_000);
/** By how much every tenth line is out of order. */
const DISORDER_MS = 200;
const PAGE = 20;

let directory: string;
let disk: GatedDisk;
let storage: LocalDiskFileStorage;
/** The ids in the order of the list. */
let expected: string[];

async function open(): Promise<void> {
  disk = new GatedDisk();
  storage = await LocalDiskFileStorage.open({ directory, disk });
}

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'dense-segment-'));
  await open();
  const times = Array.from({ length: LINES }, (_, index) => BEGIN + index * LINE_MS - (index % 10 === 9 ? DISORDER_MS : 0));
  const drafts = times.map((time) => new UploadDraftBuilder().with({ receivedAt: new Date(time), additionalData: TEXT }).build());
  await Promise.all(drafts.map((draft) => storage.store(draft)));
  expected = drafts.map(({ uploadId }, index) => ({ uploadId, time: times[index] ?? 0 })).sort((one, other) => other.time - one.time || (one.uploadId < other.uploadId ? 1 : -1)).map(({ uploadId }) => uploadId);
});
afterEach(async () => {
  await storage.close();
  await rm(directory, { recursive: true });
});

it.each<[string, () => Promise<unknown>]>([
  ['that is being written', () => Promise.resolve()],
  ['from which an upload was removed', () => storage.storedUploads.remove(expected.splice(100, 1)[0] ?? '')],
  ['after a restart', () => storage.close().then(open)],
])('finds and lists the uploads of a segment with many lines per second %s, and reads only a part of it for each page but the first', async (_, prepare) => {
  await prepare();
  for (const uploadId of [expected[0], expected.at(-1)]) expect((await storage.storedUploads.find(uploadId ?? ''))?.uploadId).toBe(uploadId);
  const found: string[] = [];
  const read: number[] = [];
  for (let after: UploadPosition | null | undefined; after !== null; ) {
    const before = disk.bytesRead;
    const { uploads, next } = await storage.storedUploads.list({}, PAGE, after);
    found.push(...uploads.map(({ uploadId }) => uploadId));
    read.push(disk.bytesRead - before);
    after = next;
  }
  expect(found).toEqual(expected);
  expect(Math.max(...read.slice(1))).toBeLessThan(512 * KIB);
});
