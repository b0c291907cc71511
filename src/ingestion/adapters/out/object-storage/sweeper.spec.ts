import { v7 as uuidV7 } from 'uuid';
import { expect, it } from 'vitest';
import { BucketView } from '../../../../testing/bucket.view.js';
import { InMemoryBucket } from '../../../../testing/in-memory.bucket.js';
import { anUploadDraft } from '../../../../testing/upload-draft.builder.js';
import { MIB } from '../../../../common/sizes.js';
import { ObjectStorageFileStorage } from './object-storage.file-storage.adapter.js';
import { BucketUploads } from './stored-uploads/bucket-uploads.js';
import { Sweeper } from './sweeper.js';

/** The keys of a stored upload's file and segment. */
interface Stored {
  readonly file: string;
  readonly segment: string;
}

const ID = uuidV7();
const FILE = `files/kind=historical/customer_id=c/date=2026-03-01/${ID}.csv`;
const SEGMENT = `uploads/kind=historical/date=2026-03-01/${ID}.ndjson`;
const failed = (contentPath: string, segment: string) => JSON.stringify({ content_path: contentPath, segment, failed: true });
const OTHER = `files/kind=historical/customer_id=c/date=2026-03-01/${uuidV7({ msecs: Date.now() + 60_000 })}.csv`;
const shared = (contentPaths: string[], segment = SEGMENT) => JSON.stringify({ content_paths: contentPaths, segment, failed: true });
const removal = (contentPath: string) => JSON.stringify({ removed: [{ upload_id: ID, content_path: contentPath, claim: null }] });

it.each<[string, string, (stored: Stored) => string]>([
  ['bytes under a name that no upload has', 'load.csv', () => 'a,b'],
  ['no bytes', ID, () => ''],
  ['JSON without paths', ID, () => '{}'],
  ['the file of another upload', ID, ({ file }) => failed(file, SEGMENT)],
  ['the segment of another upload', ID, ({ segment }) => failed(FILE, segment)],
  ['a segment in place of the file', ID, ({ segment }) => failed(segment, SEGMENT)],
  ['a file of another time, of uploads that share a segment', `${ID}.ndjson`, () => shared([FILE, OTHER])],
  ['another segment than its name, of uploads that share a segment', `${ID}.ndjson`, ({ segment }) => shared([FILE], segment)],
  ['a segment in place of a file, of uploads that share a segment', `${ID}.ndjson`, ({ segment }) => shared([FILE, segment])],
  ['files under the name of an upload', ID, () => shared([FILE])],
  ['half of a removal', `${ID}.removal`, ({ file }) => removal(file).slice(0, -9)],
  ['the file of another upload, to be removed', `${ID}.removal`, ({ file }) => removal(file)],
])('a malformed marker is left alone, with one warning: %s', async (_, name, contentOf) => {
  const bucket = new InMemoryBucket();
  const storage = new ObjectStorageFileStorage({ bucket, logger: { warn: () => undefined } });
  await storage.store(anUploadDraft().file('the bytes').build());
  await storage.close();
  const view = new BucketView(bucket);
  const [[file = ''], [segment = '']] = [await view.keys('files/'), await view.keys('uploads/')];
  const key = `staging/${name}`;
  await bucket.create(key, Buffer.from(contentOf({ file, segment })));
  const contents = async () => Promise.all(bucket.keys.map(async (each) => [each, String((await bucket.read(each))?.bytes)]));
  const before = await contents();

  const warnings: string[] = [];
  const later = bucket.another();
  later.aheadMs = 20 * 60_000;
  const sweeper = new Sweeper(later, { warn: (message) => warnings.push(message) });
  await sweeper.sweep();
  await sweeper.sweep();
  expect(warnings).toEqual([`${key} is not a marker of this store; leaving it alone.`]);
  expect(await contents()).toEqual(before);
});

it.each(['load.csv', `${ID}.removal`])('an object that is too long for a marker is never read: %s', async (name) => {
  const bucket = new InMemoryBucket();
  const key = `staging/${name}`;
  await bucket.create(key, Buffer.alloc(5 * MIB));
  const later = bucket.another();
  later.aheadMs = 20 * 60_000;
  const read: string[] = [];
  later.before = (operation, of) => {
    if (operation === 'read' || operation === 'open') read.push(of);
  };
  const warnings: string[] = [];
  const sweeper = new Sweeper(later, { warn: (message) => warnings.push(message) });
  for (let sweep = 0; sweep < 2; sweep++) await sweeper.sweep();
  expect(await new BucketUploads(later, () => undefined).remove(ID)).toBe(false);
  expect(warnings).toEqual([`${key} is not a marker of this store; leaving it alone.`]);
  expect(read).not.toContain(key);
  expect(bucket.keys).toEqual([key]);
});
