import { mkdtemp, rm, utimes } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { UploadDraftBuilder } from '../../../../../testing/upload-draft.builder.js';
import { LocalDiskFileStorage } from '../local-disk.file-storage.adapter.js';

const YESTERDAY = new Date('2026-03-10T12:00:00Z');
const TODAY = new Date('2026-03-11T12:00:00Z');
const LONG_AGO = new Date('2026-03-01T00:00:00Z');

let directory: string;
let storage: LocalDiskFileStorage;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'new-day-'));
  storage = await LocalDiskFileStorage.open({ directory });
});
afterEach(async () => {
  await storage.close();
  await rm(directory, { recursive: true });
});

const changeDaysAt = (time: Date): Promise<void> => utimes(join(directory, 'uploads/kind=historical'), time, time);

async function store(receivedAt: Date): Promise<string> {
  const draft = new UploadDraftBuilder().with({ receivedAt }).build();
  await storage.store(draft);
  return draft.uploadId;
}

const listed = async (): Promise<string[]> => (await storage.storedUploads.list({}, 10)).uploads.map(({ uploadId }) => uploadId);

it('lists the first upload of a day at once, although the days were listed before', async () => {
  const earlier = await store(YESTERDAY);
  await changeDaysAt(LONG_AGO);
  expect(await listed()).toEqual([earlier]);
  const newest = await store(TODAY);
  expect(await listed()).toEqual([newest, earlier]);
  await changeDaysAt(LONG_AGO);
  await storage.storedUploads.remove(newest);
  expect(await listed()).toEqual([earlier]);
});

it('lists the first upload of a day at once if the clock of the file system is too coarse to show the change', async () => {
  const now = new Date(Date.now() + 60_000);
  const earlier = await store(YESTERDAY);
  await changeDaysAt(now);
  expect(await listed()).toEqual([earlier]);
  const newest = await store(TODAY);
  await changeDaysAt(now);
  expect(await listed()).toEqual([newest, earlier]);
});
