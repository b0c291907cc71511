import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, readFile, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { DAY_MS, MINUTE_MS } from '../../../../../common/durations.js';
import { OneAtATime } from '../../../../../common/one-at-a-time.js';
import { DataDirectoryView } from '../../../../../testing/data-directory.view.js';
import { type DiskOperation, GatedDisk } from '../../../../../testing/gated-disk.js';
import { anUploadDraft, storeUpload } from '../../../../../testing/upload-draft.builder.js';
import type { RemovalProgress } from '../../../../application/ports/stored-uploads.port.js';
import { segmentDirectory } from '../../../../domain/layout.js';
import { LocalDiskFileStorage } from '../local-disk.file-storage.adapter.js';
import { verifyStore } from '../store-verification/directory-view.js';
import { encodeRemovalLines } from './removal-list.js';

let view: DataDirectoryView;
let disk: GatedDisk;
let storage: LocalDiskFileStorage;
let warnings: string[];

const open = async (): Promise<LocalDiskFileStorage> => {
  const logger = { warn: (message: string) => warnings.push(message) };
  return (storage = await LocalDiskFileStorage.open({ directory: view.directory, disk, logger }));
};
const restart = async (): Promise<void> => {
  await disk.die();
  disk = new GatedDisk();
  await open();
};
const journals = async () => (await view.files('pending')).filter((path) => path.endsWith('.journal'));
const storeOnThreeDays = async (customerId: string): Promise<void> => {
  for (const day of [1, 2, 3]) await storeUpload(storage, anUploadDraft().with({ customerId, receivedAt: new Date(Date.UTC(2025, 2, day, 12)) }).file(`day ${day}`).build());
};
const remove = (uploadId: string): Promise<boolean> => storage.storedUploads.remove(uploadId);

beforeEach(async () => {
  warnings = [];
  view = new DataDirectoryView(await mkdtemp(join(tmpdir(), 'removals-')));
  disk = new GatedDisk();
  await open();
});
afterEach(async () => {
  await storage.close();
  expect(disk.openFiles).toEqual([]);
  await rm(view.directory, { recursive: true });
});

it('removes an upload while the search for an unknown id still goes on', async () => {
  const { uploadId } = await storeUpload(storage, anUploadDraft().build());
  const search = disk.holdNext('open');
  const unknown = remove(anUploadDraft().build().uploadId);
  await search.reached;
  expect(await remove(uploadId)).toBe(true);
  search.release();
  expect(await unknown).toBe(false);
});

it('removes an upload once, although two callers found it at the same time', async () => {
  const { uploadId } = await storeUpload(storage, anUploadDraft().file('bytes').build());
  expect((await Promise.all([remove(uploadId), remove(uploadId)])).sort()).toEqual([false, true]);
  expect(await view.lines()).toEqual([]);
});

it('does not count an upload as removed that was found before all of its customer were removed', async () => {
  const { uploadId, customerId } = await storeUpload(storage, anUploadDraft().build());
  const search = disk.holdNext('file.close');
  const late = remove(uploadId);
  await search.reached;
  expect(await storage.storedUploads.removeAll({ customerId })).toBe(1);
  search.release();
  expect(await late).toBe(false);
});

it('removes the empty directories that an interrupted upload has left, with the customer or without', async () => {
  const day = (customer: string) => join(view.directory, `files/kind=historical/customer_id=${customer}/date=2026-03-10`);
  for (const customer of ['leaving', 'a%2Fb', 'another']) await mkdir(day(customer), { recursive: true });
  await storeUpload(storage, anUploadDraft().with({ kind: 'historical', customerId: 'leaving' }).file('bytes').build());
  expect(await storage.storedUploads.removeAll({ customerId: 'a/b' }, { dryRun: true })).toBe(0);
  expect(existsSync(day('a%2Fb'))).toBe(true);
  expect(await storage.storedUploads.removeAll({ customerId: 'a/b' })).toBe(0);
  expect(await storage.storedUploads.removeAll({ customerId: 'leaving' })).toBe(1);
  expect(await readdir(join(view.directory, 'files/kind=historical'))).toEqual(['customer_id=another']);
});

it('leaves an empty directory of a customer alone whose name the store does not use', async () => {
  const directory = 'files/kind=historical/customer_id=leaving/notes';
  await mkdir(view.at(directory), { recursive: true });
  await storeUpload(storage, anUploadDraft().with({ kind: 'historical', customerId: 'leaving' }).file('bytes').build());
  expect(await storage.storedUploads.removeAll({ customerId: 'leaving' })).toBe(1);
  expect(existsSync(view.at(directory))).toBe(true);
});

it('does not count an unknown upload as removed when it completes an interrupted removal of another', async () => {
  const { uploadId } = await storeUpload(storage, anUploadDraft().file('bytes').build());
  disk.failNext('rename', /\.ndjson$/);
  await expect(remove(uploadId)).rejects.toThrow();
  expect(await remove(anUploadDraft().build().uploadId)).toBe(false);
  expect(await view.lines()).toEqual([]);
});

it('stops before the next segment when it is broken off, and removes the rest when it is called again', async () => {
  const customerId = 'leaving';
  await storeOnThreeDays(customerId);
  const end = new AbortController();
  const reason = new Error('enough');
  const onProgress = ({ segments }: RemovalProgress): void => {
    if (segments === 1) end.abort(reason);
  };
  const removed: unknown = await storage.storedUploads.removeAll({ customerId }, { onProgress, signal: end.signal }).catch((error: unknown) => error);
  expect(removed).toBe(reason);
  expect(await view.lines()).toHaveLength(2);
  expect(await view.contentPaths()).toHaveLength(2);
  expect(await storage.storedUploads.removeAll({ customerId })).toBe(2);
  expect(await view.lines()).toEqual([]);
  expect(await view.contentPaths()).toEqual([]);
});

it('stops before the next segment when the store is closed, which waits for that', async () => {
  const customerId = 'leaving';
  await storeOnThreeDays(customerId);
  let closing: Promise<void> | undefined;
  const onProgress = (): void => {
    closing ??= storage.close();
  };
  await expect(storage.storedUploads.removeAll({ customerId }, { onProgress })).rejects.toThrow();
  await closing;
  expect(await view.lines()).toHaveLength(2);
});

it('lets the removal of one upload have its turn between two segments of a customer', async () => {
  const customerId = 'leaving';
  await storeOnThreeDays(customerId);
  const { uploadId } = await storeUpload(storage, anUploadDraft().build());
  const first = disk.holdNext('rename');
  const segments: number[] = [];
  const all = storage.storedUploads.removeAll({ customerId }, { onProgress: (step) => segments.push(step.segments) });
  await first.reached;
  const search = disk.holdNext('file.close');
  const one = remove(uploadId).then((isRemoved) => ({ isRemoved, segments: segments.length }));
  await search.reached;
  const turns = vi.spyOn(OneAtATime.prototype, 'run');
  search.release();
  await vi.waitFor(() => { expect(turns).toHaveBeenCalled(); });
  turns.mockRestore();
  first.release();
  expect(await one).toEqual({ isRemoved: true, segments: 1 });
  expect(await all).toBe(3);
  expect(await view.lines()).toEqual([]);
});

it('goes on writing to the same segment after removals that do not concern it', async () => {
  const [removed] = [await storeUpload(storage, anUploadDraft().build()), await storeUpload(storage, anUploadDraft().with({ kind: 'nowcast' }).build())];
  const nowcasts = () => view.files('uploads/kind=nowcast');
  expect(await nowcasts()).toHaveLength(1);
  expect(await remove(removed.uploadId)).toBe(true);
  expect(await storage.storedUploads.removeAll({ customerId: 'another' })).toBe(0);
  expect(await storage.storedUploads.removeAll({ to: new Date(0) })).toBe(0);
  await storage.store(anUploadDraft().with({ kind: 'nowcast' }).build());
  expect(await nowcasts()).toHaveLength(1);
  expect(await view.lines()).toHaveLength(2);
});

describe('a segment whose last line is removed', () => {
  const NOON = Date.parse('2026-01-31T12:00:00Z');
  const segments = async (): Promise<string[]> => view.files('uploads');
  const days = () => readdir(view.at('uploads/kind=historical'));
  const reopen = async (): Promise<void> => {
    await storage.close();
    await open();
  };
  beforeEach(async () => {
    await storage.close();
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date'], now: NOON });
    await open();
  });
  afterEach(() => vi.useRealTimers());
  const store = (draft = anUploadDraft()) => storeUpload(storage, draft.with({ receivedAt: new Date() }).build());

  it.each([
    ['one by one', (uploads: readonly { readonly uploadId: string }[]) => Promise.all(uploads.map(({ uploadId }) => remove(uploadId)))],
    ['all at once', () => storage.storedUploads.removeAll({})],
    ['as expired', () => storage.storedUploads.removeExpired(new Date(NOON + DAY_MS))],
  ])('stays as an empty file for ten minutes, because a reader may have listed it: %s', async (_, removal) => {
    const uploads = [await store(anUploadDraft().file('bytes')), await store()];
    const [segment = ''] = await segments();
    await removal(uploads);
    expect(await segments()).toEqual([segment]);
    expect(await readFile(view.at(segment), 'utf8')).toBe('');
    expect(await view.contentPaths()).toEqual([]);

    expect(await storage.storedUploads.find(uploads[0]?.uploadId ?? '')).toBeUndefined();
    expect((await storage.storedUploads.list({}, 10)).uploads).toEqual([]);
    expect(await storage.storedUploads.removeAll({})).toBe(0);
    for await (const finding of verifyStore(view.directory)) expect(finding).toBeUndefined();

    vi.advanceTimersByTime(10 * MINUTE_MS);
    expect(await remove(uploads[0]?.uploadId ?? '')).toBe(false);
    expect([await segments(), await days(), await view.files('pending')]).toEqual([[], [], []]);
    expect(warnings).toEqual([]);
  });

  it('is removed by a boot ten minutes later, but not by an earlier one', async () => {
    const { uploadId } = await store();
    await remove(uploadId);
    vi.setSystemTime(NOON + 9 * MINUTE_MS);
    await reopen();
    expect(await segments()).toHaveLength(1);
    vi.setSystemTime(NOON + 10 * MINUTE_MS);
    await reopen();
    expect([await segments(), await days(), await view.files('pending')]).toEqual([[], [], []]);
  });

  it('is removed by a boot if the clock was ahead when the line was removed', async () => {
    vi.setSystemTime(NOON + DAY_MS);
    const { uploadId } = await store();
    await remove(uploadId);
    vi.setSystemTime(NOON);
    await reopen();
    expect(await segments()).toEqual([]);
  });

  it('does not keep the service from starting if it cannot be removed', async () => {
    const { uploadId } = await store();
    await remove(uploadId);
    await storage.close();
    vi.setSystemTime(NOON + 10 * MINUTE_MS);
    disk.gate = (perform, operation, path) => (operation === 'remove' && path.endsWith('.ndjson') ? Promise.reject(new Error('EIO')) : perform());
    await open();
    expect(warnings).toEqual([expect.stringMatching(/^Removing the empty segment of .* failed; retrying in ten minutes/)]);
    disk.gate = (perform) => perform();
    vi.advanceTimersByTime(10 * MINUTE_MS);
    expect(await remove(uploadId)).toBe(false);
    expect([await segments(), await view.files('pending')]).toEqual([[], []]);
  });

  it('is left alone if someone has put lines back', async () => {
    const { uploadId } = await store();
    const [segment = ''] = await segments();
    const lines = await readFile(view.at(segment));
    await remove(uploadId);
    await writeFile(view.at(segment), lines);
    vi.setSystemTime(NOON + 10 * MINUTE_MS);
    await reopen();
    expect((await view.lines()).map((line) => line.upload_id)).toEqual([uploadId]);
    expect(await view.files('pending')).toEqual([]);
  });

  it('has no events but those of the removal', async () => {
    const { eventOutbox } = storage;
    await eventOutbox.open();
    const [first, second] = [await store(), await store()];
    const batch = await eventOutbox.next(1);
    await storage.storedUploads.removeAll({});
    await batch?.confirm();
    for (const { uploadId } of [first, second]) {
      const next = await eventOutbox.next(1);
      expect(next?.events).toMatchObject([{ type: 'removed', uploadId }]);
      await next?.confirm();
    }
    expect(await eventOutbox.next(1)).toBeUndefined();
    expect([await view.files('events'), warnings]).toEqual([[], []]);
  });
});

/**
 * Holds a removal back before it rewrites its segment, until `others` have found their uploads, and wait for it. Calls
 * `meanwhile`, lets the removal go on, and returns the results of `others`.
 */
async function whileOneIsRemoved(uploadId: string, others: readonly string[], meanwhile: () => void = () => undefined): Promise<PromiseSettledResult<boolean>[]> {
  const rewrite = disk.holdNext('create');
  const first = remove(uploadId);
  await rewrite.reached;
  const { gate } = disk;
  let [searches, operations] = [0, 0];
  disk.gate = async (perform, operation, path) => {
    operations += 1;
    try {
      return await gate(perform, operation, path);
    } finally {
      operations -= 1;
      if (operation === 'file.close' && path.endsWith('.ndjson')) searches += 1;
    }
  };
  const removals = Promise.allSettled(others.map(remove));
  // All of them wait for the rewrite once they have found their uploads, and none does anything on the disk any more.
  for (let quietTurns = 0; quietTurns < 10; ) {
    await new Promise(setImmediate);
    quietTurns = searches >= others.length && operations === 0 ? quietTurns + 1 : 0;
  }
  disk.gate = gate;
  meanwhile();
  rewrite.release();
  expect(await first).toBe(true);
  return removals;
}

/** Stores small files, all in one segment. */
const storeFiles = (count: number) => Promise.all(Array.from({ length: count }, (_, index) => storeUpload(storage, anUploadDraft().file(`file ${index}`).build())));

function countRewrites(): { readonly count: number } {
  const rewrites = { count: 0 };
  const { gate } = disk;
  disk.gate = (perform, operation, path) => {
    if (operation === 'create' && path.endsWith('.rewritten')) rewrites.count += 1;
    return gate(perform, operation, path);
  };
  return rewrites;
}

it('rewrites a segment once for all removals that wait', async () => {
  const [kept, first, ...others] = (await storeFiles(102)).map(({ uploadId }) => uploadId);
  const rewrites = countRewrites();
  const removals = await whileOneIsRemoved(first ?? '', others);
  expect(removals).toEqual(others.map(() => ({ status: 'fulfilled', value: true })));
  expect(rewrites.count).toBe(2);
  await storage.close();
  await open();
  expect((await view.lines()).map((line) => line.upload_id)).toEqual([kept]);
  expect(await view.contentPaths()).toHaveLength(1);
  expect(warnings).toEqual([]);
});

it('fails all removals that share a rewrite that fails, and completes them with the next one', async () => {
  const [first, ...others] = (await storeFiles(11)).map(({ uploadId }) => uploadId);
  let rewrites = 0;
  disk.gate = (perform, operation, path) => (operation === 'create' && path.endsWith('.rewritten') && ++rewrites === 2 ? Promise.reject(new Error('ENOSPC')) : perform());
  const removals = await whileOneIsRemoved(first ?? '', others);
  expect(removals.map(({ status }) => status)).toEqual(others.map(() => 'rejected'));
  expect(await Promise.all(others.slice(0, 1).map(remove))).toEqual([true]);
  expect(await view.lines()).toEqual([]);
  expect(await view.contentPaths()).toEqual([]);
});

it('removes at most 1,000 uploads with one rewrite', async () => {
  const [first, ...others] = await Promise.all(Array.from({ length: 1_002 }, async () => (await storage.store(anUploadDraft().build())).uploadId));
  const rewrites = countRewrites();
  const removals = await whileOneIsRemoved(first ?? '', others);
  expect(removals.every((removal) => removal.status === 'fulfilled' && removal.value)).toBe(true);
  expect(rewrites.count).toBe(3);
  expect(await view.lines()).toEqual([]);
});

it('answers the removals that wait when the storage is closed', async () => {
  const [first, ...others] = (await storeFiles(4)).map(({ uploadId }) => uploadId);
  let closing: Promise<void> | undefined;
  const removals = await whileOneIsRemoved(first ?? '', others, () => { closing = storage.close(); });
  await closing;
  expect(removals.map(({ status }) => status)).toEqual(others.map(() => 'rejected'));
  await open();
  expect(await view.lines()).toHaveLength(3);
  expect(await view.contentPaths()).toHaveLength(3);
});

it('refuses removals while a journal has to be kept, because the next boot would not find the lines of its files', async () => {
  const early = await storeUpload(storage, anUploadDraft().with({ additionalData: 'x'.repeat(2_000) }).build());
  const linked = await storeUpload(storage, anUploadDraft().with({ customerId: 'linked' }).file('linked').build());
  const kept = await storeUpload(storage, anUploadDraft().file('kept').build());
  const pathOf = ({ content }: typeof kept) => view.at(content?.path ?? '');
  const customer = dirname(dirname(pathOf(linked)));
  const elsewhere = await mkdtemp(join(tmpdir(), 'elsewhere-'));
  await disk.die();
  await rename(customer, join(elsewhere, 'customer'));
  await symlink(join(elsewhere, 'customer'), customer);
  disk = new GatedDisk();
  await open();
  const removal = await remove(early.uploadId).catch((error: unknown) => error);
  await restart();
  expect(await readFile(pathOf(kept), 'utf8')).toBe('kept');
  expect(removal).toMatchObject({ kind: 'storage-failure' });
  expect(warnings).toContainEqual(expect.stringMatching(/[.]journal is kept, because not all of its files could be restored/));
  await rm(customer);
  await rename(join(elsewhere, 'customer'), customer);
  await rm(elsewhere, { recursive: true });
  expect(await remove(early.uploadId)).toBe(true);
  expect(await journals()).toEqual([]);
  await restart();
  expect(await view.lines()).toHaveLength(2);
  expect(await Promise.all([linked, kept].map((upload) => readFile(pathOf(upload), 'utf8')))).toEqual(['linked', 'kept']);
});

it('makes a list durable whose first sync failed, before it removes anything', async () => {
  const { uploadId } = await storeUpload(storage, anUploadDraft().file('bytes').build());
  const done: string[] = [];
  let fails = true;
  disk.gate = async (perform, operation, path) => {
    const isSyncOfLists = operation === 'syncDirectory' && path === view.at('pending');
    if (isSyncOfLists && fails && (await view.files('pending')).some((name) => name.endsWith('.removal'))) {
      fails = false;
      throw new Error('EIO');
    }
    if (isSyncOfLists || (operation === 'rename' && path.startsWith(view.at('uploads')))) done.push(operation);
    return perform();
  };
  await expect(remove(uploadId)).rejects.toThrow();
  done.length = 0;
  expect(await remove(uploadId)).toBe(true);
  expect(done.slice(0, 2)).toEqual(['syncDirectory', 'rename']);
});

it('completes an interrupted removal of an upload whose line has a customer that is no text', async () => {
  const { uploadId } = await storeUpload(storage, anUploadDraft().with({ customerId: 'customer-1' }).file('bytes').build());
  await storage.close();
  const [segment = ''] = await view.files('uploads');
  await writeFile(view.at(segment), (await readFile(view.at(segment), 'utf8')).replace('"customer_id":"customer-1"', '"customer_id":1'));
  disk = new GatedDisk();
  await open();
  disk.failNext('rename', /\.ndjson$/);
  await expect(remove(uploadId)).rejects.toThrow();
  await restart();
  expect([await view.lines(), await view.files('files'), warnings.filter((text) => text.includes('not a removal list'))]).toEqual([[], [], []]);
});

it('completes an interrupted removal of an upload with a key, although the next boot failed after that', async () => {
  const draft = anUploadDraft().with({ idempotencyKey: 'k', receivedAt: new Date() }).file('bytes');
  const { uploadId } = await storeUpload(storage, draft.build());
  await storage.close();
  await open();
  disk.failNext('rename', /\.ndjson$/);
  await expect(remove(uploadId)).rejects.toThrow();
  await disk.die();
  disk = new GatedDisk();
  disk.failNext('syncDirectory', /staging$/);
  await expect(open()).rejects.toThrow('EIO');
  await open();
  expect(await storage.store(draft.build())).toMatchObject({ replayed: false });
  expect(warnings).toEqual([]);
});

it('leaves a removal list alone whose segment or file is outside of DATA_DIR, behind a link', async () => {
  const { uploadId } = await storeUpload(storage, anUploadDraft().build());
  const outside = await mkdtemp(join(tmpdir(), 'outside-'));
  const other = anUploadDraft().with({ customerId: 'other' }).file('').build();
  const segment = `${segmentDirectory('historical', new Date(0))}/segment.ndjson`;
  const contentPath = other.content?.path ?? '';
  for (const path of [segment, contentPath]) {
    await writeFile(join(outside, basename(path)), `{"upload_id":"${other.uploadId}"}\n`);
    await mkdir(dirname(dirname(view.at(path))), { recursive: true });
    await symlink(outside, dirname(view.at(path)));
  }
  const list = encodeRemovalLines([{ segment, removedAt: new Date().toISOString() }, { uploadId: other.uploadId, contentPath, scope: null }]);
  await writeFile(view.at('pending/foreign.removal'), list);
  expect(await remove(uploadId)).toBe(true);
  expect(await storage.storedUploads.removeAll({ customerId: 'customer-1' })).toBe(0);
  expect((await readdir(outside)).sort()).toEqual([basename(contentPath), basename(segment)].sort());
  expect(await readFile(join(outside, basename(segment)), 'utf8')).not.toBe('');
  expect((await view.files('pending')).filter((path) => !path.endsWith('.emptied'))).toEqual(['pending/foreign.removal']);
  expect(warnings).toContain(`${view.at('pending/foreign.removal')} is not a removal list of this store; leaving it alone.`);
  await rm(outside, { recursive: true });
});

it.each<[string, string, (path: string) => Promise<unknown>]>([
  ['a directory as a removal list', 'x.removal', (path) => mkdir(path)],
  ['a FIFO as a removal list', 'x.removal', (path) => promisify(execFile)('mkfifo', [path])],
  ['a file as a removal list', 'x.removal', (path) => writeFile(path, 'text')],
  ['a directory as an unfinished list', 'x.removal.unfinished', (path) => mkdir(path)],
])('removes uploads and starts again although there is %s, which it leaves alone', async (_, name, make) => {
  const [first, second] = await storeFiles(2);
  await make(view.at(`pending/${name}`));
  expect(await remove(first?.uploadId ?? '')).toBe(true);
  expect(await storage.storedUploads.removeAll({ customerId: second?.customerId })).toBe(1);
  await storage.close();
  await open();
  expect(await view.lines()).toEqual([]);
  expect(new Set(warnings)).toEqual(new Set([`${view.at(`pending/${name}`)} is not a removal list of this store; leaving it alone.`]));
  expect((await readdir(view.at('pending'))).filter((each) => !each.endsWith('.emptied'))).toEqual([name]);
});

describe('after a disk has failed once', () => {
  /** Fails the next of the given operations whose path matches, `times` times. */
  const failAt = (operations: readonly DiskOperation[], path: RegExp, times = 1) => {
    let failures = 0;
    disk.gate = (perform, operation, at) => (operations.includes(operation) && path.test(at) && failures++ < times ? Promise.reject(new Error('EIO')) : perform());
  };

  it('removes uploads again, and has rewritten the files whose sync failed, none of which was missing at any time', async () => {
    const kept = await storeUpload(storage, anUploadDraft().file('kept').build());
    const removed = await storeUpload(storage, anUploadDraft().file('removed').build());
    failAt(['file.sync'], /[/]files[/]/);
    const { gate } = disk;
    const keptPath = kept.content?.path ?? '';
    const written: string[] = [];
    let isMissing = false;
    disk.gate = (perform, operation, path) => {
      if (operation === 'rename') written.push(path);
      isMissing ||= !existsSync(view.at(keptPath));
      return gate(perform, operation, path);
    };
    expect(await remove(removed.uploadId)).toBe(true);
    expect(warnings).toEqual([expect.stringMatching(/^Ending the use of .*[.]journal failed/)]);
    expect(written).toContain(view.at(keptPath));
    expect(isMissing).toBe(false);
    expect(await journals()).toEqual([]);
    const later = await storeUpload(storage, anUploadDraft().file('later').build());
    expect(await remove(later.uploadId)).toBe(true);
    await restart();
    expect((await view.lines()).map((line) => line.upload_id)).toEqual([kept.uploadId]);
    expect(await view.contentPaths()).toEqual([keptPath]);
    expect(String(await view.bytes(keptPath))).toBe('kept');
  });

  it('rejects removals as long as the files cannot be written, and loses none of them', async () => {
    const kept = await storeUpload(storage, anUploadDraft().file('kept').build());
    const removed = await storeUpload(storage, anUploadDraft().build());
    failAt(['file.sync'], /[/]files[/]/, Infinity);
    for (let time = 0; time < 2; time++) await expect(remove(removed.uploadId)).rejects.toMatchObject({ kind: 'storage-failure' });
    expect(String(await view.bytes(kept.content?.path ?? ''))).toBe('kept');
    disk.gate = (perform) => perform();
    expect(await remove(removed.uploadId)).toBe(true);
    expect(await journals()).toEqual([]);
    expect(await storage.storedUploads.removeAll({})).toBe(1);
    expect(await view.contentPaths()).toEqual([]);
  });

  it('removes the uploads of all other segments although one segment cannot be rewritten, and then rejects', async () => {
    const drafts = [1, 2, 3].map((day) => anUploadDraft().with({ receivedAt: new Date(Date.UTC(2025, 2, day, 12)) }).file(`day ${day}`).build());
    for (const draft of drafts) await storage.store(draft);
    failAt(['create'], /[/]staging[/].*[.]rewritten$/);
    const progress: RemovalProgress[] = [];
    await expect(storage.storedUploads.removeAll({}, { onProgress: (step) => progress.push(step) })).rejects.toMatchObject({ kind: 'storage-failure' });
    expect((await view.lines()).map((line) => line.upload_id)).toEqual([drafts[0]?.uploadId]);
    expect(await view.contentPaths()).toEqual([drafts[0]?.content?.path]);
    expect(progress.map(({ segments, uploads }) => [segments, uploads])).toEqual([[1, 0], [2, 1], [3, 2]]);
    expect(await storage.storedUploads.removeAll({})).toBe(0);
    expect(await view.lines()).toEqual([]);
    expect(await view.contentPaths()).toEqual([]);
  });

  it('leaves one list of removals that wait, however often they are repeated', async () => {
    const [first, second] = (await storeFiles(2)).map(({ uploadId }) => uploadId) as [string, string];
    failAt(['create'], /[.]rewritten$/, Infinity);
    for (const uploadId of [first, first, second]) await expect(remove(uploadId)).rejects.toMatchObject({ kind: 'storage-failure' });
    for (let time = 0; time < 2; time++) await expect(storage.storedUploads.removeAll({})).rejects.toMatchObject({ kind: 'storage-failure' });
    expect((await view.files('pending')).filter((path) => path.endsWith('.removal'))).toHaveLength(1);
    disk.gate = (perform) => perform();
    expect(await remove(second)).toBe(true);
    expect(await view.lines()).toEqual([]);
    expect(await view.contentPaths()).toEqual([]);
  });

  it('removes uploads again after an upload that could be neither stored nor undone, and drops that upload', async () => {
    const removed = await storeUpload(storage, anUploadDraft().file('removed').build());
    failAt(['file.sync', 'file.truncate', 'link'], /[.]ndjson$|[/]pending[/][^.]+([.]unfinished)?$/, Infinity);
    await expect(storage.store(anUploadDraft().file('failed').build())).rejects.toMatchObject({ kind: 'storage-failure' });
    expect(await view.contentPaths()).toHaveLength(2);
    await expect(remove(removed.uploadId)).rejects.toMatchObject({ kind: 'storage-failure' });
    disk.gate = (perform) => perform();
    expect(await remove(removed.uploadId)).toBe(true);
    expect(await view.contentPaths()).toEqual([]);
    const kept = await storeUpload(storage, anUploadDraft().file('kept').build());
    await restart();
    expect((await view.lines()).map((line) => line.upload_id)).toEqual([kept.uploadId]);
    expect(await view.contentPaths()).toEqual([kept.content?.path]);
  });
});
