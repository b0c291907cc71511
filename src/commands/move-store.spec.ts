import { appendFile, cp, mkdtemp, readdir, readFile, rename, rm, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { isEachCaseTried } from '../../test/support/cases.js';
import { LocalDiskFileStorage } from '../ingestion/adapters/out/local-disk/local-disk.file-storage.adapter.js';
import { NodeDisk } from '../ingestion/adapters/out/local-disk/node-disk.js';
import { openDirectorySource } from '../ingestion/adapters/out/local-disk/store-move/directory-source.js';
import { StoreSilentError } from '../ingestion/adapters/out/object-storage/bucket.js';
import { ObjectStorageFileStorage } from '../ingestion/adapters/out/object-storage/object-storage.file-storage.adapter.js';
import { findLine } from '../ingestion/adapters/out/object-storage/stored-uploads/upload-search.js';
import { type MoveProblem, StoreMove } from '../ingestion/adapters/out/object-storage/store-move/store-move.js';
import { verifyBucket } from '../ingestion/adapters/out/object-storage/store-verification/bucket-view.js';
import type { UploadDraft } from '../ingestion/application/ports/file-storage.port.js';
import { storedUploadsOf } from '../ingestion/application/stored-uploads-of.js';
import type { Upload } from '../ingestion/domain/upload.js';
import { BucketView } from '../testing/bucket.view.js';
import { DataDirectoryView } from '../testing/data-directory.view.js';
import { InMemoryBucket } from '../testing/in-memory.bucket.js';
import { anUploadDraft, storeUpload } from '../testing/upload-draft.builder.js';

const MINUTE = 60_000;
const DAY = 24 * 60 * MINUTE;
const LARGE = Buffer.alloc(100_000, 'large ');
const logger = { warn: () => undefined };

/** An upload that began a minute before it was complete. */
const slow = (receivedAt: Date): UploadDraft => {
  const draft = anUploadDraft().with({ receivedAt: new Date(receivedAt.getTime() - MINUTE) }).file('slow').build();
  return { ...draft, conclude: async (stored) => ({ ...(await draft.conclude(stored)), receivedAt }) };
};

describe('moving a store from the local disk to a bucket', () => {
  let base: string;
  let view: DataDirectoryView;
  let bucket: InMemoryBucket;
  /** The time at which `seed` stores the uploads of the current day. */
  let now: Date;

  beforeEach(async () => {
    base = await mkdtemp(join(tmpdir(), 'move-store-'));
    view = new DataDirectoryView(join(base, 'data'));
    bucket = new InMemoryBucket();
    now = new Date();
  });
  afterEach(() => rm(base, { recursive: true }));

  const openDisk = (directory = view.directory, disk = new NodeDisk()) => LocalDiskFileStorage.open({ directory, logger, disk });
  /** The uploads to move: of today, and of a past day; with and without files and keys. */
  const drafts = (): UploadDraft[] => {
    const past = new Date(now.getTime() - 3 * DAY);
    const at = (offset: number, time = now) => anUploadDraft().with({ receivedAt: new Date(time.getTime() + offset) });
    return [
      at(0, past).build(),
      at(1, past).with({ kind: 'nowcast' }).file('past').build(),
      at(2, past).with({ idempotencyKey: 'expired' }).build(),
      slow(past),
      at(0).with({ additionalData: 'text \u00e9\n' }).build(),
      at(1).file(LARGE).build(),
      at(2).with({ customerId: 'a b' }).file('').build(),
      at(3).with({ idempotencyKey: 'key' }).build(),
      at(4).with({ idempotencyKey: 'file key' }).file('keyed').build(),
      slow(now),
    ];
  };
  async function seed(directory = view.directory, stored = drafts()): Promise<Upload[]> {
    const storage = await openDisk(directory);
    const uploads: Upload[] = [];
    for (const draft of stored) uploads.push(await storeUpload(storage, draft));
    await storage.close();
    return uploads;
  }

  async function moveOf(directory = view.directory, target = bucket, dryRun = false): Promise<StoreMove> {
    const source = await openDirectorySource(directory);
    if (!source) throw new Error('There is no store.');
    return new StoreMove(source, target, dryRun);
  }
  async function problemsOf<Problem = MoveProblem>(iterated: AsyncIterable<Problem>): Promise<Problem[]> {
    const problems: Problem[] = [];
    for await (const problem of iterated) problems.push(problem);
    return problems;
  }
  /** Runs the move to its end, as the command does while no service runs. */
  async function finish(directory = view.directory, target = bucket, disk = new NodeDisk()): Promise<MoveProblem[]> {
    const storage = await openDisk(directory, disk);
    try {
      const move = await moveOf(directory, target);
      return (await move.begin()) ? [] : await problemsOf(move.finish(() => storage.assertHere()));
    } finally {
      await storage.close();
    }
  }
  const copyFiles = async (target = bucket): Promise<MoveProblem[]> => {
    const move = await moveOf(view.directory, target);
    await move.begin();
    return problemsOf(move.copyFiles(false));
  };

  /** Expects the bucket to have exactly these uploads, all of which can be found, listed and read. */
  async function expectMoved(uploads: readonly Upload[], target = bucket): Promise<void> {
    expect(await problemsOf(verifyBucket(target))).toEqual([]);
    expect(await new BucketView(target).contentPaths()).toEqual(uploads.flatMap(({ content }) => content?.path ?? []).sort());
    const storage = new ObjectStorageFileStorage({ bucket: target.another(), logger });
    try {
      const stored = storedUploadsOf(storage);
      const newest = [...uploads].sort((one, other) => other.receivedAt.getTime() - one.receivedAt.getTime() || (one.uploadId < other.uploadId ? 1 : -1));
      expect((await stored.list({}, 100)).uploads).toEqual(newest);
      for (const upload of uploads) expect(await stored.find(upload.uploadId)).toEqual(upload);
    } finally {
      await storage.close();
    }
  }

  it('makes every upload found, listed, fetched and recognised there', async () => {
    const uploads = await seed();
    expect(await finish()).toEqual([]);
    await expectMoved(uploads);
    const storage = new ObjectStorageFileStorage({ bucket, logger });
    const repeat = (idempotencyKey: string, ...chunks: string[]) => {
      const draft = anUploadDraft().with({ idempotencyKey });
      return storage.store((chunks.length > 0 ? draft.file(...chunks) : draft).build());
    };
    const idOf = (key: string) => uploads.find(({ idempotencyKey }) => idempotencyKey === key)?.uploadId;
    expect(await repeat('key')).toMatchObject({ replayed: true, uploadId: idOf('key') });
    expect(await repeat('file key', 'keyed')).toMatchObject({ replayed: true, uploadId: idOf('file key') });
    await expect(repeat('key', 'other bytes')).rejects.toMatchObject({ kind: 'idempotency-key-reused' });
    expect(await repeat('expired')).toMatchObject({ replayed: false });
    for (const { uploadId, idempotencyKey } of uploads) {
      if (idempotencyKey !== 'expired') expect(await storedUploadsOf(storage).remove(uploadId)).toBe(true);
    }
    await storage.close();
    expect(await new BucketView(bucket).contentPaths()).toEqual([]);
  });

  it('keeps the lines and files as they are, byte for byte', async () => {
    await seed();
    const segments = await view.files('uploads');
    // Each line gets a member, `later`, that this version doesn't know.
    const [segment = ''] = segments;
    await writeFile(view.at(segment), (await readFile(view.at(segment), 'utf8')).replaceAll('}\n', ',"later":1}\n'));
    await finish();
    const bySorting = (lines: readonly object[]) => lines.map((line) => JSON.stringify(line)).sort();
    expect(bySorting(await new BucketView(bucket).lines())).toEqual(bySorting(await view.lines()));
    for (const path of await view.contentPaths()) expect(await new BucketView(bucket).bytes(path)).toEqual(await view.bytes(path));
  });

  it('copies files only while a service runs, and what was stored and removed meanwhile in the last step', async () => {
    const uploads = await seed();
    const [past, large, keyed] = ['past', LARGE.toString(), 'keyed'].map((bytes) => uploads.find(({ content }) => content?.size === bytes.length));
    const storage = await openDisk();
    const added: Upload[] = [];
    const others = bucket.another();
    others.before = async (operation, key) => {
      if (operation !== 'upload' || key !== past?.content?.path) return;
      for (const upload of [past, large, keyed]) await storedUploadsOf(storage).remove(upload?.uploadId ?? '');
      added.push(await storeUpload(storage, anUploadDraft().with({ idempotencyKey: 'new' }).file('new').build()));
    };
    expect(await copyFiles(others)).toEqual([]);
    expect(bucket.keys.filter((key) => !key.startsWith('files/'))).toEqual(['move']);
    await storage.close();
    expect(await finish()).toEqual([]);
    await expectMoved([...uploads.filter((upload) => ![past, large, keyed].includes(upload)), ...added]);
    expect(bucket.keys.filter((key) => key.startsWith('idempotency/'))).toHaveLength(2);
  });

  it('reads each file once, however often it is interrupted', async () => {
    const uploads = await seed();
    const withFile = uploads.filter(({ content }) => content).length;
    await copyFiles();
    const move = await moveOf();
    await move.begin();
    await problemsOf(move.copyFiles(false));
    expect(move.totals).toMatchObject({ uploads: uploads.length, files: withFile, copiedFiles: 0, copiedBytes: 0 });
  });

  it.each(['before', 'after'] as const)('continues after a crash %s any operation on the bucket, without what was removed since', async (when) => {
    const whole = join(base, 'whole');
    const uploads = await seed(whole, drafts().filter(({ content, idempotencyScope }) => content ?? idempotencyScope).slice(-4));
    const removed = uploads.filter(({ idempotencyKey }) => idempotencyKey === 'key' || idempotencyKey === 'file key');
    /** Begins a move that crashes at an operation on the bucket. Returns the bucket, and how many operations were begun. */
    const crashAt = async (step: number) => {
      await cp(whole, view.directory, { recursive: true });
      const target = new InMemoryBucket();
      const crashing = target.another();
      let operations = 0;
      crashing[when] = () => {
        if (operations++ >= step) throw new Error('crashed');
      };
      const isDone = await finish(view.directory, crashing).then(() => true, () => false);
      return { target, operations, isDone };
    };
    const { target: complete, operations: all } = await crashAt(Infinity);
    await expectMoved(uploads, complete);
    await rm(view.directory, { recursive: true });
    for (let step = 0; step < all; step += isEachCaseTried ? 1 : 6) {
      const { target, isDone } = await crashAt(step);
      expect(isDone).toBe(false);
      const storage = await openDisk();
      for (const { uploadId } of removed) await storedUploadsOf(storage).remove(uploadId);
      const added = await storeUpload(storage, anUploadDraft().with({ idempotencyKey: 'key' }).file(`step ${step}`).build());
      await storage.close();
      expect(await finish(view.directory, target)).toEqual([]);
      await expectMoved([...uploads.filter((upload) => !removed.includes(upload)), added], target);
      await rm(view.directory, { recursive: true });
    }
  });

  it('keeps every line if the bucket carries out the removals of an interrupted run late', async () => {
    const uploads = await seed();
    const crashing = bucket.another();
    crashing.before = (operation, key) => {
      if (operation === 'replace' && key === 'move' && bucket.keys.some((each) => each.startsWith('uploads/'))) throw new Error('crashed');
    };
    await expect(finish(view.directory, crashing)).rejects.toThrow('crashed');
    const removed = uploads.find(({ idempotencyKey }) => idempotencyKey === 'key');
    const storage = await openDisk();
    await storedUploadsOf(storage).remove(removed?.uploadId ?? '');
    await storage.close();
    const late: string[] = [];
    const silent = bucket.another();
    silent.remove = (keys) => {
      late.push(...keys);
      return Promise.reject(new StoreSilentError(1));
    };
    await expect(finish(view.directory, silent)).rejects.toThrow(StoreSilentError);
    expect(await finish()).toEqual([]);
    await bucket.remove(late);
    await expectMoved(uploads.filter((upload) => upload !== removed));
  });

  const withFile = ({ content }: Upload): boolean => content?.size === LARGE.length;
  const segmentWith = async (text: string): Promise<string> => {
    for (const path of await view.files('uploads')) if ((await readFile(view.at(path), 'utf8')).includes(text)) return path;
    throw new Error(`No segment has ${text}.`);
  };
  it.each<[string, (path: string) => Promise<string>, RegExp]>([
    ['a file with other bytes', async (path) => (await writeFile(view.at(path), Buffer.alloc(LARGE.length, 'x')), path), /^the file has sha-256 [0-9a-f]{64}, its line says /],
    ['a file that is too short', async (path) => (await truncate(view.at(path), 3), path), /^the file has 3 bytes, its line says 100000$/],
    ['a missing file', async (path) => (await rm(view.at(path)), path), /^the file is absent$/],
    [
      'a malformed line',
      async (path) => {
        const segment = await segmentWith(path);
        await writeFile(view.at(segment), (await readFile(view.at(segment), 'utf8')).replace(path, 'elsewhere'));
        return segment;
      },
      /^line \d+ is malformed: content_path is not the upload's own$/,
    ],
    [
      'a torn line',
      async (path) => {
        const segment = await segmentWith(path);
        await appendFile(view.at(segment), '{"upload_id":"');
        return segment;
      },
      /^line \d+ is torn, or no line of an upload$/,
    ],
  ])('reports %s, writes no line, and goes on after a repair', async (_, damage, detail) => {
    const uploads = await seed();
    const whole = join(base, 'whole');
    await cp(view.directory, whole, { recursive: true });
    const path = await damage(uploads.find(withFile)?.content?.path ?? '');
    expect(await finish()).toEqual([{ path, detail: expect.stringMatching(detail) as string }]);
    expect(bucket.keys.filter((key) => !key.startsWith('files/'))).toEqual(['move']);
    expect(bucket.keys).not.toContain(path);
    await rm(view.directory, { recursive: true });
    await cp(whole, view.directory, { recursive: true });
    expect(await finish()).toEqual([]);
    await expectMoved(uploads);
  });

  it('changes nothing in a dry run, and counts what would be copied', async () => {
    const uploads = await seed();
    const move = await moveOf(view.directory, bucket, true);
    expect(await move.begin()).toBe(false);
    expect(await problemsOf(move.copyFiles(false))).toEqual([]);
    const files = uploads.flatMap(({ content }) => content ?? []);
    const bytes = files.reduce((sum, { size }) => sum + size, 0);
    expect(move.totals).toEqual({ uploads: uploads.length, files: files.length, bytes, copiedFiles: files.length, copiedBytes: bytes, problems: 0 });
    expect(bucket.keys).toEqual([]);
  });

  it.each<[string, () => Promise<unknown>, RegExp]>([
    ['has other objects', () => bucket.create('uploads/x', Buffer.from('x')), /^The bucket is not empty: it has "uploads\/x"\. Choose/],
    ['took another store', () => bucket.create('move', Buffer.from('{"store_id":"other"}')), /^Another store was moved to the bucket\. Choose/],
    ['has a damaged note', () => bucket.create('move', Buffer.from('{}')), /^The object "move" in the bucket is damaged\. Choose/],
  ])('refuses a bucket that %s', async (_, prepare, message) => {
    await seed();
    await prepare();
    const before = bucket.keys;
    await expect(finish()).rejects.toThrow(message);
    expect(bucket.keys).toEqual(before);
  });

  it.each([
    ['was asked for its health', 'health'],
    ['was never asked for its health', 'uploads/'],
  ])('removes nothing from a bucket that a service has used since the move began, which %s', async (_, found) => {
    await seed();
    await copyFiles();
    const storage = new ObjectStorageFileStorage({ bucket: bucket.another(), logger });
    if (found === 'health') await storage.checkHealth();
    const upload = await storeUpload(storage, anUploadDraft().file('of the bucket').build());
    await storage.close();
    await expect(finish()).rejects.toThrow(`A service has used the bucket since the move began (${found}`);
    expect(bucket.keys).toContain(upload.content?.path);
    expect(await new BucketView(bucket).lines()).toMatchObject([{ upload_id: upload.uploadId }]);
  });

  it('removes nothing while a part of the store is away, and goes on when it is back', async () => {
    const uploads = await seed();
    await copyFiles();
    const files = await new BucketView(bucket).contentPaths();
    const move = await moveOf();
    await move.begin();
    await expect(problemsOf(move.finish(() => Promise.reject(new Error('away'))))).rejects.toThrow('away');
    expect(await new BucketView(bucket).contentPaths()).toEqual(files);
    expect(await finish()).toEqual([]);
    await expectMoved(uploads);
  });

  it.each(['files', 'uploads'])('is not complete if %s/ goes away during the last step, and is once it is back', async (part) => {
    const uploads = await seed();
    const storage = await openDisk();
    const move = await moveOf();
    await move.begin();
    // Stands for a health check that repeats an earlier healthy result although `part` is gone.
    const leave = async (): Promise<void> => {
      if ((await readdir(view.directory)).includes(part)) await rename(view.at(part), view.at('away'));
    };
    await expect(problemsOf(move.finish(leave))).rejects.toThrow();
    await rename(view.at('away'), view.at(part));
    await storage.close();
    expect(await finish()).toEqual([]);
    await expectMoved(uploads);
  });

  it('knows a store that was moved before, and changes nothing', async () => {
    await seed();
    await finish();
    await bucket.remove([bucket.keys.find((key) => key.startsWith('files/')) ?? '']);
    const before = bucket.keys;
    expect(await (await moveOf()).begin()).toBe(true);
    expect(bucket.keys).toEqual(before);
  });

  it('refuses a store that has changed since it was moved to a bucket that is in use', async () => {
    await seed();
    await finish();
    const inBucket = new ObjectStorageFileStorage({ bucket: bucket.another(), logger });
    await inBucket.checkHealth();
    await inBucket.close();
    expect(await finish()).toEqual([]);
    await seed(view.directory, [anUploadDraft().file('on the disk again').build()]);
    const before = bucket.keys;
    await expect(finish()).rejects.toThrow(/^The store has changed since it was moved, and a service has used the bucket \(health\)\. Choose/);
    expect(bucket.keys).toEqual(before);
  });

  it('removes nothing if another run has completed the move since this one began', async () => {
    const uploads = await seed();
    const late = await moveOf();
    await late.begin();
    await problemsOf(late.copyFiles(false));
    await finish();
    const inBucket = new ObjectStorageFileStorage({ bucket: bucket.another(), logger });
    const added = await storeUpload(inBucket, anUploadDraft().build());
    await inBucket.close();
    const storage = await openDisk();
    expect(await problemsOf(late.finish(() => storage.assertHere()))).toEqual([]);
    expect(late.wasMovedBefore).toBe(true);
    await storage.close();
    await expectMoved([...uploads, added]);
  });

  it('lets uploads of today be found without a listing of the whole day', async () => {
    const at = (offset: number, tookMs = 0): UploadDraft => {
      const draft = anUploadDraft().with({ receivedAt: new Date(now.getTime() + offset - tookMs) }).build();
      return { ...draft, conclude: async (stored) => ({ ...(await draft.conclude(stored)), receivedAt: new Date(now.getTime() + offset) }) };
    };
    const uploads = await seed(view.directory, [at(0), at(1_900), at(4_000), at(4_000, 8_000), at(4_200, 8_000), at(8_000, 9_500), at(8_000)]);
    await finish();
    // Two pairs of uploads began within two seconds.
    expect(bucket.keys.filter((key) => key.startsWith('uploads/'))).toHaveLength(uploads.length - 2);
    const listed: string[] = [];
    bucket.before = (operation, key) => {
      if (operation === 'list') listed.push(key);
    };
    for (const { uploadId } of uploads) expect(await findLine(bucket, uploadId)).toBeDefined();
    expect(listed).not.toEqual([]);
    expect(listed.filter((prefix) => prefix.endsWith('/'))).toEqual([]);
  });

  it('moves a store whose volume is full', async () => {
    const uploads = await seed();
    const disk = new NodeDisk();
    disk.spaceAt = () => Promise.resolve({ free: 0, size: 10 ** 9, freeFiles: 0, files: 10 ** 6 });
    expect(await finish(view.directory, bucket, disk)).toEqual([]);
    expect((await new BucketView(bucket).lines()).length).toBe(uploads.length);
  });

  it('writes no segment of more than 16 MiB, except for a single longer line', async () => {
    const past = new Date(now.getTime() - 3 * DAY);
    const lengths = [10_000_000, 9_000_000, 7_000_000, 20_000_000, 1];
    await seed(view.directory, lengths.map((length, index) => anUploadDraft().with({ receivedAt: new Date(past.getTime() + index), additionalData: 'x'.repeat(length) }).build()));
    expect(await finish()).toEqual([]);
    const sizes: number[] = [];
    for await (const { size } of bucket.list('uploads/')) sizes.push(size);
    expect(sizes.sort((one, other) => one - other).map((size) => Math.round(size / 1_000_000))).toEqual([0, 10, 16, 20]);
  });

  it('moves an empty store', async () => {
    await (await openDisk()).close();
    expect(await finish()).toEqual([]);
    expect(bucket.keys).toEqual(['move']);
  });

  it('finds no store in another directory', async () => {
    expect(await openDirectorySource(base)).toBeUndefined();
  });
});
