import { existsSync, readdirSync, readlinkSync } from 'node:fs';
import { mkdir, mkdtemp, readFile, readdir, rename, rm, rmdir, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { Readable } from 'node:stream';
import { basename, dirname, join, relative } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { IndexFlush } from '../../../application/ports/index-flush.js';
import { processMemory } from '../../../../common/memory-budget.js';
import { ServiceError } from '../../../../common/service-error.js';
import type { FileIdentity } from '../../../../common/data-directory/file-identity.js';
import { KIB, MIB } from '../../../../common/sizes.js';
import { DataDirectoryView } from '../../../../testing/data-directory.view.js';
import { fileStorageContract, type FileStorageContractSubject } from '../../../../testing/file-storage.contract.js';
import { GatedDisk } from '../../../../testing/gated-disk.js';
import { eventOutboxContract } from '../../../../testing/event-outbox.contract.js';
import { storedUploadsContract } from '../../../../testing/stored-uploads.contract.js';
import { anUploadDraft, storeUpload } from '../../../../testing/upload-draft.builder.js';
import type { DirectoryOrigin } from './disk.js';
import { NodeDisk } from './node-disk.js';
import type { SelfCheckingDatabase } from './self-checking-database.js';
import { LocalDiskFileStorage, type LocalDiskOptions } from './local-disk.file-storage.adapter.js';

/** The bytes of a file that is too large for a journal. */
const LARGE = 'bytes '.repeat(3_000);

/** The paths of the files that this process has open. */
function openFiles(): string[] {
  return readdirSync('/proc/self/fd').flatMap((descriptor) => {
    try {
      return readlinkSync(`/proc/self/fd/${descriptor}`);
    } catch {
      return [];
    }
  });
}

/** A disk on which one directory, `covered`, appears to be the root of another volume, mounted over it. */
class CoveredDisk extends NodeDisk {
  covered = '';
  device = 1n;

  override identityOf(path: string): FileIdentity | undefined {
    return this.isCovered(path) ? { dev: this.device, ino: 2n } : super.identityOf(path);
  }

  override placeCheck(path: string, file: FileIdentity): () => boolean {
    return () => {
      const now = this.identityOf(path);
      return now?.ino === file.ino && now.dev === file.dev;
    };
  }

  override originOf(path: string): DirectoryOrigin | undefined {
    return this.isCovered(path) ? { device: this.device, inode: 2n, bornAt: 3n } : super.originOf(path);
  }

  protected isCovered(path: string): boolean {
    return this.covered !== '' && `${path}/`.startsWith(`${this.covered}/`);
  }
}

/** A `CoveredDisk` that also refuses renames into and out of the covered directory, as between two volumes. */
class TwoVolumes extends CoveredDisk {
  override rename(from: string, to: string): Promise<void> {
    if (this.isCovered(from) !== this.isCovered(to)) return Promise.reject(Object.assign(new Error(`EXDEV: ${to}`), { code: 'EXDEV' }));
    return super.rename(from, to);
  }
}

const setUp = async (): Promise<FileStorageContractSubject> => {
  const directory = await mkdtemp(join(tmpdir(), 'contract-'));
  const view = new DataDirectoryView(directory);
  let storage = await LocalDiskFileStorage.open({ directory });
  return {
    storage,
    reopen: async () => {
      await storage.close();
      return (storage = await LocalDiskFileStorage.open({ directory }));
    },
    lines: () => view.lines(),
    bytes: (path) => view.bytes(path),
    contentPaths: () => view.contentPaths(),
    tearDown: async () => {
      await storage.close();
      await rm(directory, { recursive: true });
    },
  };
};
fileStorageContract('local disk', setUp);
storedUploadsContract('local disk', setUp);
eventOutboxContract('local disk', setUp);

describe('LocalDiskFileStorage', () => {
  let base: string;
  let view: DataDirectoryView;
  let storage: LocalDiskFileStorage;
  let warnings: string[];

  const open = async (options: Partial<LocalDiskOptions> = {}) => {
    const logger = { warn: (message: string) => warnings.push(message) };
    return (storage = await LocalDiskFileStorage.open({ directory: view.directory, logger, ...options }));
  };

  const stopClock = (): void => { vi.useFakeTimers({ toFake: ['performance'] }); };
  /** Advances a stopped clock by a second, for which the results of health checks and of attempts to reopen are cached. */
  const letStoreBeProbedAgain = (): void => { vi.advanceTimersByTime(1_000); };

  beforeEach(async () => {
    warnings = [];
    base = await mkdtemp(join(tmpdir(), 'local-disk-'));
    view = new DataDirectoryView(join(base, 'to', 'be', 'made'));
  });
  afterEach(async () => {
    vi.useRealTimers();
    await storage.close();
    await rm(base, { recursive: true });
  });

  it('creates its directory, and leaves nothing pending or staged when it closes', async () => {
    await open();
    await storage.store(anUploadDraft().file('bytes').build());
    await storage.store(anUploadDraft().file(LARGE).build());
    expect((await view.files('pending')).map((path) => path.split('.')[1])).toEqual(['journal', undefined]);
    await storage.close();
    expect(await view.files('pending')).toEqual([]);
    expect(await view.files('staging')).toEqual([]);
    expect((await readdir(view.directory)).sort()).toEqual(['files', 'pending', 'staging', 'store-id', 'uploads', 'uploads.lock']);
    expect(warnings).toEqual([]);
  });

  it('writes lines to a segment of their kind and of the day on which the upload was completed', async () => {
    await open();
    for (const kind of ['historical', 'nowcast'] as const) {
      for (const day of ['2025-12-31T23:59:59.999Z', '2026-01-01T00:00:00.000Z', '2026-01-01T00:00:00.001Z']) {
        await storage.store(anUploadDraft().with({ kind, receivedAt: new Date(day) }).build());
      }
    }
    const segment = /^uploads\/(kind=\w+\/date=[-\d]+)\/[0-9a-f]{8}-[0-9a-f]{4}-7[-0-9a-f]+\.ndjson$/;
    expect((await view.files('uploads')).map((path) => segment.exec(path)?.[1])).toEqual([
      'kind=historical/date=2025-12-31',
      'kind=historical/date=2026-01-01',
      'kind=nowcast/date=2025-12-31',
      'kind=nowcast/date=2026-01-01',
    ]);
    expect(await view.lines()).toHaveLength(6);
  });

  it('starts a new segment at each boot, and when one is full', async () => {
    await open({ maxSegmentBytes: 700 });
    for (let count = 0; count < 5; count++) await storage.store(anUploadDraft().build());
    const sizes = await Promise.all((await view.files('uploads')).map(async (path) => (await stat(view.at(path))).size));
    expect(sizes).toHaveLength(3);
    for (const size of sizes) expect(size).toBeLessThanOrEqual(700);
    expect(await view.files('pending')).toHaveLength(1);

    await storage.close();
    await open();
    await storage.store(anUploadDraft().build());
    expect(await view.files('uploads')).toHaveLength(4);
    expect(await view.lines()).toHaveLength(6);
  });

  /**
   * Stores two files with the given bytes. Returns the disk operations of the second upload, and the paths that it
   * used.
   */
  const operationsFor = async (bytes: string) => {
    const disk = new GatedDisk();
    await open({ disk });
    const receivedAt = new Date();
    await storage.store(anUploadDraft().with({ receivedAt }).file(bytes).build());
    const operations = new Set<string>();
    disk.gate = (perform, operation, path) => {
      operations.add(`${operation} ${relative(view.directory, path)}`);
      return perform();
    };
    const draft = anUploadDraft().with({ receivedAt }).file(bytes).build();
    await storage.store(draft);
    const [segment = ''] = await view.files('uploads');
    const [journal = ''] = (await view.files('pending')).filter((path) => path.endsWith('.journal'));
    return { operations: [...operations], draft, path: draft.content?.path ?? '', segment, journal };
  };

  it('acknowledges a small file only after its journal record, its file and its line, in this order', async () => {
    const { operations, path, segment, journal } = await operationsFor('bytes');
    expect(operations).toEqual([
      `file.write ${journal}`,
      `file.sync ${journal}`,
      `file.standsAt ${journal}`,
      `create ${path}`,
      `file.write ${path}`,
      `file.close ${path}`,
      `file.write ${segment}`,
      `file.sync ${segment}`,
      `file.standsAt ${segment}`,
    ]);
  });

  it('acknowledges a large file only after its bytes, its marker, its name and its line are durable, in this order', async () => {
    const { operations, draft, path, segment } = await operationsFor(LARGE);
    expect(operations).toEqual([
      `create staging/${draft.uploadId}`,
      `file.write staging/${draft.uploadId}`,
      `file.sync staging/${draft.uploadId}`,
      `link pending/${draft.uploadId}`,
      'syncDirectory pending',
      `file.close staging/${draft.uploadId}`,
      `rename ${path}`,
      `syncDirectory ${dirname(path)}`,
      `file.write ${segment}`,
      `file.sync ${segment}`,
      `file.standsAt ${segment}`,
      `remove pending/${draft.uploadId}`,
    ]);
  });

  it('creates a segment once its marker is durable, and writes its first line once its name is durable', async () => {
    const disk = new GatedDisk();
    await open({ disk });
    const operations: string[] = [];
    disk.gate = (perform, operation, path) => {
      operations.push(`${operation} ${relative(view.directory, path)}`);
      return perform();
    };
    await storage.store(anUploadDraft().build());
    const [segment = ''] = await view.files('uploads');
    expect([...new Set(operations)]).toEqual([
      `link pending/${basename(segment, '.ndjson')}`,
      'syncDirectory pending',
      `makeDirectory ${dirname(segment)}`,
      `syncDirectory ${dirname(dirname(segment))}`,
      `createSynchronized ${segment}`,
      `syncDirectory ${dirname(segment)}`,
      `file.write ${segment}`,
      `file.sync ${segment}`,
      `file.standsAt ${segment}`,
    ]);
  });

  it('shares a flush among the waiting lines, up to one megabyte or a single longer line', async () => {
    const flushes: IndexFlush[] = [];
    const disk = new GatedDisk();
    await open({ disk, onFlush: (flush) => flushes.push(flush) });
    await storage.store(anUploadDraft().build());

    const held = disk.holdNext('file.sync');
    const store = (length: number) => storage.store(anUploadDraft().with({ additionalData: 'x'.repeat(length) }).build());
    const stores = [10, 10, 10, ...Array.from({ length: 20 }, () => 60_000), 10].map(store);
    await held.reached;
    await expect.poll(() => storage.waitingLines).toBe(23);
    held.release();
    await Promise.all(stores);
    expect(storage.waitingLines).toBe(0);
    await store(2_000_000);

    expect(flushes.map(({ lines }) => lines)).toEqual([1, 1, 19, 4, 1]);
    expect(flushes.every(({ ok, seconds }) => ok && seconds >= 0)).toBe(true);
  });

  it('rejects the uploads that share a failed flush, and no others', async () => {
    const flushes: IndexFlush[] = [];
    const disk = new GatedDisk();
    await open({ disk, onFlush: (flush) => flushes.push(flush) });
    const held = disk.holdNext('file.sync');
    const first = storage.store(anUploadDraft().build());
    await held.reached;
    const second = [anUploadDraft(), anUploadDraft()].map((builder) => storage.store(builder.build()));
    await new Promise(setImmediate);
    held.release();
    disk.failNext('file.sync');
    const outcomes = await Promise.allSettled([first, ...second]);
    const third = await storage.store(anUploadDraft().build());

    expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'rejected']);
    expect(flushes).toMatchObject([
      { lines: 1, ok: true },
      { lines: 2, ok: false },
      { lines: 1, ok: true },
    ]);
    expect((await view.lines()).map((line) => line.upload_id)).toEqual([(await first).uploadId, third.uploadId]);
    expect(await view.files('uploads')).toHaveLength(2);
  });

  it.each([
    ...(['file.write', 'file.sync', 'link', 'rename', 'syncDirectory', 'makeDirectory'] as const).map((name) => [name, LARGE] as const),
    ...(['create', 'makeDirectory'] as const).map((name) => [name, 'bytes'] as const),
  ])('removes all parts of an upload at once when %s fails', async (operation, bytes) => {
    const disk = new GatedDisk();
    await open({ disk });
    disk.failNext(operation);
    await expect(storage.store(anUploadDraft().file(bytes).build())).rejects.toThrow();
    for (const name of ['uploads', 'files', 'staging']) expect(await view.files(name)).toEqual([]);
    await storage.close();
    expect(await view.files('pending')).toEqual([]);
    expect(warnings).toEqual([]);
  });

  it.each(['createSynchronized', 'file.write', 'syncDirectory'] as const)('stores a small file like a large one when no journal can be created because %s fails', async (operation) => {
    const disk = new GatedDisk();
    await open({ disk });
    await storage.store(anUploadDraft().build());
    disk.failNext(operation);
    await storage.store(anUploadDraft().file('one').build());
    await storage.store(anUploadDraft().file('two').build());
    expect(await view.contentPaths()).toHaveLength(2);
    expect((await view.files('pending')).filter((path) => path.endsWith('.journal'))).toEqual([]);
    expect(await view.files('staging')).toEqual([]);
    expect(warnings).toHaveLength(1);
  });

  it('gives up a large file when a sync during its upload fails', async () => {
    const disk = new GatedDisk();
    await open({ disk });
    const syncs: string[] = [];
    disk.gate = (perform, operation, path) => {
      if (operation !== 'file.sync') return perform();
      syncs.push(dirname(relative(view.directory, path)));
      return Promise.reject(new Error('EIO'));
    };
    const chunks = Array<Buffer>(130).fill(Buffer.alloc(MIB));
    await expect(storage.store(anUploadDraft().file(...chunks).build())).rejects.toMatchObject({ kind: 'storage-failure' });
    expect(syncs).toEqual(['staging']);
    disk.gate = (perform) => perform();
    expect(await view.files('staging')).toEqual([]);
  });

  it.runIf(process.platform === 'linux')('closes a segment whose failed write can be neither cut off nor marked', async () => {
    const disk = new GatedDisk();
    await open({ disk });
    await storage.store(anUploadDraft().build());
    disk.gate = (perform, operation) => (['file.write', 'file.truncate', 'link'].includes(operation) ? Promise.reject(new Error('EIO')) : perform());
    await expect(storage.store(anUploadDraft().build())).rejects.toMatchObject({ kind: 'storage-failure' });
    const openSegments = (): string[] => openFiles().filter((path) => path.startsWith(view.directory) && path.endsWith('.ndjson'));
    expect(openSegments()).toHaveLength(1);
    await storage.close();
    expect(openSegments()).toEqual([]);
  });

  it('continues with a new journal while the files of a full one are synced, and then reuses the full one', async () => {
    const disk = new GatedDisk();
    await open({ disk, maxJournalBytes: 700 });
    const journals = async () => (await view.files('pending')).filter((path) => path.endsWith('.journal'));
    const storeOne = () => storage.store(anUploadDraft().file('bytes').build());
    const held = disk.holdNext('open');
    await storeOne();
    await storeOne();
    expect(await journals()).toHaveLength(1);
    await storeOne();
    await held.reached;
    expect(await journals()).toHaveLength(2);
    await storeOne();
    const waiting = storeOne();
    const next = disk.holdNext('file.write');
    held.release();
    await next.reached;
    next.release();
    await waiting;
    expect(await journals()).toHaveLength(2);
    expect(await view.contentPaths()).toHaveLength(5);
  });

  it('stores a small file like a large one while the files of both journals are synced', async () => {
    const disk = new GatedDisk();
    await open({ disk, maxJournalBytes: 1 });
    let endSyncs = (): void => undefined;
    const syncsEnd = new Promise<void>((resolve) => (endSyncs = resolve));
    const renamed: string[] = [];
    disk.gate = async (perform, operation, path) => {
      if (operation === 'rename') renamed.push(relative(view.directory, path));
      if (operation === 'file.sync' && path.startsWith(view.at('files'))) await syncsEnd;
      return perform();
    };
    for (const text of ['one', 'two']) await storage.store(anUploadDraft().file(text).build());
    expect(renamed).toEqual([]);
    const third = anUploadDraft().file('three').build();
    await storage.store(third);
    expect(renamed).toEqual([third.content?.path]);
    endSyncs();
  });

  it('leaves no empty segment when its first flush fails', async () => {
    const disk = new GatedDisk();
    await open({ disk });
    disk.failNext('file.sync');
    await expect(storage.store(anUploadDraft().build())).rejects.toThrow();
    expect(await view.files('uploads')).toEqual([]);
    expect(await view.files('pending')).toEqual([]);
  });

  it('writes waiting lines of two days to one segment for each day', async () => {
    const disk = new GatedDisk();
    await open({ disk });
    const held = disk.holdNext('file.sync');
    const days = ['2025-12-31', '2025-12-31', '2026-01-01', '2026-01-01'];
    const stores = days.map((day) => storage.store(anUploadDraft().with({ receivedAt: new Date(day) }).build()));
    await held.reached;
    held.release();
    await Promise.all(stores);
    const ofDay = async (path: string) => (await readFile(view.at(path), 'utf8')).match(/(?<="received_at":").{10}/g);
    expect(await Promise.all((await view.files('uploads')).map(ofDay))).toEqual([days.slice(0, 2), days.slice(2)]);
  });

  it('reports an error of the disk as a storage failure with its cause', async () => {
    const disk = new GatedDisk();
    await open({ disk });
    for (const [operation, bytes] of [['create', LARGE], ['rename', LARGE], ['create', 'bytes']] as const) {
      const cause = disk.failNext(operation);
      const error = await storage.store(anUploadDraft().file(bytes).build()).catch((error: unknown) => error);
      expect(error).toBeInstanceOf(ServiceError);
      expect(error).toMatchObject({ kind: 'storage-failure', cause });
    }
  });

  it.each([
    ['with an open segment', {}],
    ['with a full segment', { maxSegmentBytes: 1 }],
  ])('recreates a directory that someone removed, %s', async (_name, options) => {
    await open(options);
    const receivedAt = new Date();
    await storage.store(anUploadDraft().with({ receivedAt }).file('one').build());
    for (const part of ['uploads', 'files']) {
      for (const name of await readdir(view.at(`${part}/kind=historical`))) await rm(view.at(`${part}/kind=historical/${name}`), { recursive: true });
    }
    await storage.store(anUploadDraft().with({ receivedAt }).file('two').build());
    await storage.store(anUploadDraft().with({ receivedAt }).build());
    expect(await view.lines()).toHaveLength(2);
    expect(await view.contentPaths()).toHaveLength(1);
  });

  describe.each(['uploads', 'uploads/kind=historical', 'files', 'files/kind=historical', 'staging', 'pending'])('when %s/ is moved away', (part) => {
    beforeEach(stopClock);

    const isRefused = async () => {
      letStoreBeProbedAgain();
      await expect(storage.store(anUploadDraft().file(LARGE).build())).rejects.toMatchObject({ kind: 'storage-failure' });
      await expect(storage.checkHealth()).rejects.toMatchObject({ kind: 'storage-failure' });
    };

    it('is unhealthy until the directory is back, and creates nothing in its place', async () => {
      await open();
      await storage.store(anUploadDraft().file('one').build());
      await rename(view.at(part), view.at('.aside'));
      await isRefused();
      await isRefused();
      expect(existsSync(view.at(part))).toBe(false);
      expect(warnings.at(-1)).toContain(`${view.at(part)} is missing: put it back`);
      await rename(view.at('.aside'), view.at(part));
      letStoreBeProbedAgain();
      await storage.checkHealth();
      for (const bytes of ['two', LARGE]) await storage.store(anUploadDraft().file(bytes).build());
      expect(await view.lines()).toHaveLength(3);
      expect(await view.contentPaths()).toHaveLength(3);
    });

    it('writes nothing to another directory in its place', async () => {
      await open();
      await storage.store(anUploadDraft().file('one').build());
      await rename(view.at(part), view.at('.aside'));
      await mkdir(view.at(part));
      await isRefused();
      await isRefused();
      expect(await readdir(view.at(part))).toEqual([]);
      expect(warnings.at(-1)).toContain(`${view.at(part)} was replaced`);
      await rmdir(view.at(part));
      await rename(view.at('.aside'), view.at(part));
      letStoreBeProbedAgain();
      await storage.checkHealth();
      expect(await view.lines()).toHaveLength(1);
    });
  });

  it('continues when the store is back, although the database of its keys could not be closed', async () => {
    const disk = new GatedDisk();
    const openDatabase = vi.spyOn(disk, 'openDatabase');
    await open({ disk });
    const draft = () => anUploadDraft().with({ idempotencyKey: 'key' }).build();
    await storage.store(draft());
    await vi.waitUntil(() => openDatabase.mock.results.length > 0, { timeout: 10_000 });
    const database = openDatabase.mock.results[0]?.value as SelfCheckingDatabase;
    const close = database.close.bind(database);
    vi.spyOn(database, 'close').mockImplementationOnce(() => close().then(() => Promise.reject(new Error('EIO: i/o error, close'))));
    await rename(view.directory, join(base, 'away'));
    await expect(storage.store(draft())).rejects.toMatchObject({ kind: 'storage-failure' });
    await rename(join(base, 'away'), view.directory);
    await vi.waitUntil(() => storage.checkHealth().then(() => true, () => false), { timeout: 10_000 });
    expect(await storage.store(draft())).toMatchObject({ replayed: true });
    expect(warnings).toContain('Closing the store that went away failed.');
  });

  const removeJournals = async () => {
    for (const name of await readdir(view.at('pending'))) if (name.endsWith('.journal')) await rm(view.at(`pending/${name}`));
  };

  it('recreates journals that someone removed, however many were in use', async () => {
    await open({ maxJournalBytes: 1 });
    const receivedAt = new Date();
    const storeOne = (text: string) => storage.store(anUploadDraft().with({ receivedAt }).file(text).build());
    for (const text of ['one', 'two', 'three', 'four']) await storeOne(text);
    await removeJournals();
    await storeOne('five');
    await storeOne('six');
    expect(await view.contentPaths()).toHaveLength(6);
  });

  it('recreates a journal when both were removed while their files were synced', async () => {
    const disk = new GatedDisk();
    await open({ disk, maxJournalBytes: 1 });
    const storeOne = (text: string) => storage.store(anUploadDraft().file(text).build());
    const first = disk.holdNext('open');
    await storeOne('one');
    await storeOne('two');
    await first.reached;
    await removeJournals();
    // The service finds the second journal missing and is about to remove it. Only now does the first journal become
    // free for its next use.
    const removing = disk.holdNext('remove');
    const third = storeOne('three');
    await removing.reached;
    const using = disk.holdNext('file.standsAt');
    first.release();
    await using.reached;
    using.release();
    removing.release();
    await third;
    expect(await view.contentPaths()).toHaveLength(3);
  });

  it.each([
    ['one failure, left to the next boot', 1, 1],
    ['permanent failure, with at most three journals left to the next boot', Infinity, 3],
  ])('continues when a journal cannot be settled: %s', async (_, times, left) => {
    const disk = new GatedDisk();
    await open({ disk, maxJournalBytes: 1 });
    let failures = 0;
    disk.gate = (perform, operation, path) => {
      if (operation !== 'file.sync' || !path.includes('/files/') || failures >= times) return perform();
      failures += 1;
      return Promise.reject(new Error('EIO'));
    };
    for (let count = 0; count < 6; count++) await storage.store(anUploadDraft().file(`${count}`).build());
    await storage.close();
    expect((await view.files('pending')).filter((path) => path.endsWith('.journal')).length).toBeLessThanOrEqual(left);
    expect(await view.contentPaths()).toHaveLength(6);
    disk.gate = (perform) => perform();
    await open();
    expect(await view.files('pending')).toEqual([]);
    expect(await view.contentPaths()).toHaveLength(6);
  });

  it('replays a journal that could not be settled before the next removal, and never again', async () => {
    const disk = new GatedDisk();
    await open({ disk, maxJournalBytes: 1 });
    disk.failNext('file.sync', /\/files\//);
    const [first, second] = [await storeUpload(storage, anUploadDraft().file('1').build()), await storeUpload(storage, anUploadDraft().file('2').build())];
    for (let count = 0; count < 4; count++) await storage.store(anUploadDraft().file(`${count}`).build());
    const segments = async () => (await view.files('uploads')).length;
    await storage.storedUploads.remove(first.uploadId);
    await storage.store(anUploadDraft().build());
    const before = await segments();
    await storage.storedUploads.remove(second.uploadId);
    await storage.store(anUploadDraft().build());
    expect(await segments()).toBe(before);
    expect(warnings.filter((warning) => warning.includes('.journal'))).toHaveLength(1);
  });

  it.each(['uploads/kind=historical', 'pending'])('removes uploads while %s/ is a volume of its own', async (part) => {
    const disk = new TwoVolumes();
    disk.covered = view.at(part);
    await open({ disk });
    const kept = await storeUpload(storage, anUploadDraft().file('keep').build());
    const { uploadId } = await storeUpload(storage, anUploadDraft().file('remove').build());
    expect(await storage.storedUploads.remove(uploadId)).toBe(true);
    expect((await view.lines()).map((line) => line.upload_id)).toEqual([kept.uploadId]);
    expect([...(await view.files('uploads')), ...(await view.files('pending'))].filter((path) => !/\.(ndjson|journal)$/.test(path) && path.includes('.'))).toEqual([]);
    expect(warnings).toEqual([]);
  });

  it('reads little of each of many large files while the disk stalls', async () => {
    const disk = new GatedDisk();
    await open({ disk });
    const writes: (() => void)[] = [];
    disk.gate = async (perform, operation, path) => {
      if (operation === 'file.write' && path.includes('/staging/')) await new Promise<void>((resolve) => writes.push(resolve));
      return perform();
    };
    let read = 0;
    const bytes = Buffer.alloc(64 * KIB);
    function* chunks() {
      for (let chunk = 0; chunk < 32; chunk++) {
        read += bytes.length;
        yield bytes;
      }
    }
    const uploads = Array.from({ length: 100 }, () => storage.store(anUploadDraft().with({ bytes: Readable.from(chunks(), { highWaterMark: 1 }) }).build()));
    await vi.waitUntil(() => writes.length === uploads.length, { timeout: 30_000 });
    for (let quiet = 0, before = 0; quiet < 50; quiet++) {
      await new Promise(setImmediate);
      if (read !== before) [before, quiet] = [read, 0];
    }
    expect(writes).toHaveLength(uploads.length);
    expect(read).toBeLessThan(96 * MIB);
    expect(processMemory.usedFor('staged')).toBeLessThanOrEqual(processMemory.bytes);
    disk.gate = (perform) => perform();
    for (const go of writes) go();
    await Promise.all(uploads);
    expect(read).toBe(200 * MIB);
    expect(processMemory.usedFor('staged')).toBe(0);
  });

  it('copies a large file whose directory is on another volume than staging/', async () => {
    const disk = new TwoVolumes();
    disk.covered = view.at('files/kind=historical');
    await open({ disk });
    const bytes = 'x'.repeat(2_500_000);
    const { content } = await storeUpload(storage, anUploadDraft().with({ kind: 'historical' }).file(bytes).build());
    expect(String(await view.bytes(content?.path ?? ''))).toBe(bytes);
    expect([...(await view.files('staging')), ...(await view.files('pending'))].filter((path) => path.includes(content?.path.split('_').at(-1) ?? ''))).toEqual([]);
    await storage.checkHealth();
    expect(warnings).toEqual([]);
  });

  it('has each file of a journal in place while it is restored, although staging/ is on another volume, and leaves no copy', async () => {
    const volumes = new TwoVolumes();
    volumes.covered = view.at('staging');
    const first = new GatedDisk(volumes);
    await open({ disk: first });
    const path = (await storeUpload(storage, anUploadDraft().file('bytes').build())).content?.path ?? '';
    await first.die();
    let isMissing = false;
    const second = new GatedDisk(volumes);
    const died = new Promise<void>((resolve) => {
      second.gate = async (perform, operation, on) => {
        if (operation === 'rename' && on === view.at(path)) {
          resolve();
          return new Promise(() => undefined);
        }
        const done = await perform();
        isMissing ||= !existsSync(view.at(path));
        return done;
      };
    });
    void open({ disk: second });
    await died;
    expect(await view.contentPaths()).toHaveLength(2);
    await second.die();
    await open({ disk: new GatedDisk(volumes) });
    expect(isMissing).toBe(false);
    expect(await view.contentPaths()).toEqual([path]);
    expect(String(await view.bytes(path))).toBe('bytes');
    expect(warnings).toEqual([]);
  });

  it('restores files from a journal and removes uploads, although staging/ is another mount of the same volume', async () => {
    const mounts = new TwoVolumes();
    mounts.covered = view.at('staging');
    mounts.device = mounts.identityOf(base)?.dev ?? 0n;
    const first = new GatedDisk(mounts);
    await open({ disk: first });
    const [removed, kept] = [await storeUpload(storage, anUploadDraft().file('removed').build()), await storeUpload(storage, anUploadDraft().file('kept').build())];
    await first.die();
    await open({ disk: new GatedDisk(mounts) });
    expect(String(await view.bytes(removed.content?.path ?? ''))).toBe('removed');
    expect(await storage.storedUploads.remove(removed.uploadId)).toBe(true);
    expect((await view.lines()).map((line) => line.upload_id)).toEqual([kept.uploadId]);
    expect(await view.contentPaths()).toEqual([kept.content?.path]);
    expect(String(await view.bytes(kept.content?.path ?? ''))).toBe('kept');
    expect([await view.files('staging'), (await view.files('uploads')).length, warnings]).toEqual([[], 1, []]);
  });

  it.each(['is still', 'is no longer'])('leaves no copy of a segment that a removal had not replaced before a crash, if staging/ %s on another volume', async (is) => {
    const volumes = new TwoVolumes();
    volumes.covered = view.at('staging');
    const first = new GatedDisk(volumes);
    await open({ disk: first });
    const { uploadId } = await storeUpload(storage, anUploadDraft().build());
    const died = new Promise<void>((resolve) => {
      first.gate = async (perform, operation, path) => {
        if (operation !== 'rename' || !path.endsWith('.ndjson')) return perform();
        resolve();
        return new Promise(() => undefined);
      };
    });
    void storage.storedUploads.remove(uploadId);
    await died;
    expect(await view.files('uploads')).toEqual([expect.stringMatching(/[/][.].*[.]ndjson[.]rewritten$/), expect.stringMatching(/[.]ndjson$/)]);
    await first.die();
    await open({ disk: is === 'is still' ? new GatedDisk(volumes) : new GatedDisk() });
    expect(await view.files('uploads')).toEqual([expect.stringMatching(/[.]ndjson$/)]);
    expect(await view.lines()).toEqual([]);
    expect(warnings).toEqual([]);
  });

  it('starts although a removal cannot be completed, and completes it before the next one', async () => {
    const disk = new GatedDisk();
    await open({ disk });
    const first = await storeUpload(storage, anUploadDraft().file('first').build());
    const second = await storeUpload(storage, anUploadDraft().file('second').build());
    disk.gate = (perform, operation, path) => (operation === 'create' && path.endsWith('.rewritten') ? Promise.reject(new Error('ENOSPC')) : perform());
    await expect(storage.storedUploads.remove(first.uploadId)).rejects.toMatchObject({ kind: 'storage-failure' });
    await storage.close();
    await open({ disk });
    expect(warnings.at(-1)).toMatch(/^Completing the removal in .* failed; retrying before the next removal/);
    expect(await view.lines()).toHaveLength(2);
    disk.gate = (perform) => perform();
    expect(await storage.storedUploads.remove(second.uploadId)).toBe(true);
    expect(await view.lines()).toEqual([]);
    expect(await view.contentPaths()).toEqual([]);
  });

  it('rejects the removal of a customer, even when it is repeated, until no bytes are left', async () => {
    const disk = new GatedDisk();
    await open({ disk });
    const { storedUploads } = storage;
    const { content } = await storeUpload(storage, anUploadDraft().with({ customerId: 'customer-1' }).file('first').build());
    await storeUpload(storage, anUploadDraft().with({ customerId: 'customer-2' }).file('second').build());
    await storeUpload(storage, anUploadDraft().with({ customerId: 'customer-3' }).file('third').build());
    disk.gate = (perform, operation, path) => (operation === 'remove' && path.endsWith(content?.path ?? '') ? Promise.reject(new Error('EIO')) : perform());
    for (let time = 1; time <= 2; time += 1) await expect(storedUploads.removeAll({ customerId: 'customer-1' })).rejects.toMatchObject({ kind: 'storage-failure' });
    expect(await storedUploads.removeAll({ customerId: 'customer-2' })).toBe(1);
    await expect(storedUploads.removeAll({})).rejects.toMatchObject({ kind: 'storage-failure' });
    expect(await view.lines()).toEqual([]);
    expect(await view.contentPaths()).toEqual([content?.path]);
    disk.gate = (perform) => perform();
    expect(await storedUploads.removeAll({ customerId: 'customer-1' })).toBe(0);
    expect(await view.contentPaths()).toEqual([]);
  });

  it('removes lines before bytes, so that a reader finds no line without bytes', async () => {
    const disk = new GatedDisk();
    await open({ disk });
    const draft = anUploadDraft().file('the bytes');
    for (let count = 0; count < 2; count++) await storage.store(draft.build());
    const kept = await storeUpload(storage, draft.with({ customerId: 'customer-2' }).build());
    const left: string[][] = [];
    disk.gate = async (perform, operation, path) => {
      if (operation === 'remove' && path.includes('/files/')) left.push((await view.lines()).map((line) => line.upload_id));
      return perform();
    };
    await storage.storedUploads.removeAll({ customerId: 'customer-1' });
    expect(left).toEqual([[kept.uploadId], [kept.uploadId]]);
  });

  it('completes the failed removal of an upload when it is repeated by a caller who may access its customer', async () => {
    const disk = new GatedDisk();
    await open({ disk });
    const { storedUploads } = storage;
    const { uploadId, content, customerId } = await storeUpload(storage, anUploadDraft().file('the bytes').build());
    disk.gate = (perform, operation, path) => (operation === 'remove' && path.endsWith(content?.path ?? '') ? Promise.reject(new Error('EIO')) : perform());
    const isTheirs = (customer: string) => customer === customerId;
    expect(await storedUploads.remove(uploadId, () => false)).toBe(false);
    expect(await view.lines()).toHaveLength(1);
    for (let time = 1; time <= 2; time += 1) await expect(storedUploads.remove(uploadId, isTheirs)).rejects.toMatchObject({ kind: 'storage-failure' });
    expect(await storedUploads.remove(uploadId, () => false)).toBe(false);
    disk.gate = (perform) => perform();
    expect(await storedUploads.removeAll({ customerId }, { dryRun: true })).toBe(0);
    expect(await view.contentPaths()).toEqual([content?.path]);
    expect(await storedUploads.remove(uploadId, isTheirs)).toBe(true);
    expect(await view.contentPaths()).toEqual([]);
    expect(await storedUploads.remove(uploadId, isTheirs)).toBe(false);
  });

  it('does not treat uploads as removed while their segments are missing', async () => {
    stopClock();
    await open();
    const { uploadId } = await storeUpload(storage, anUploadDraft().build());
    await rename(view.at('uploads/kind=historical'), view.at('away'));
    const { storedUploads } = storage;
    await expect(storedUploads.find(uploadId)).rejects.toMatchObject({ kind: 'storage-failure' });
    await expect(storedUploads.list({}, 10)).rejects.toMatchObject({ kind: 'storage-failure' });
    await expect(storedUploads.remove(uploadId)).rejects.toMatchObject({ kind: 'storage-failure' });
    await expect(storedUploads.removeAll({})).rejects.toMatchObject({ kind: 'storage-failure' });
    await rename(view.at('away'), view.at('uploads/kind=historical'));
    letStoreBeProbedAgain();
    expect(await storedUploads.find(uploadId)).toMatchObject({ uploadId });
  });

  it('writes later lines to a new segment after someone moved a segment away', async () => {
    await open();
    await storage.store(anUploadDraft().build());
    const [segment = ''] = await view.files('uploads');
    await rename(view.at(segment), view.at('archived.ndjson'));
    await storage.store(anUploadDraft().build());
    await storage.store(anUploadDraft().build());
    expect(await view.lines()).toHaveLength(2);
    expect(await view.files('uploads')).not.toContain(segment);
  });

  it.each(['uploads', 'uploads/kind=historical', 'files', 'files/kind=nowcast', 'staging', 'pending'])('is unhealthy while another volume covers %s/', async (part) => {
    stopClock();
    const disk = new CoveredDisk();
    await open({ disk });
    await storage.checkHealth();
    disk.covered = view.at(part);
    for (let time = 0; time < 2; time++) {
      letStoreBeProbedAgain();
      await expect(storage.store(anUploadDraft().file(LARGE).build())).rejects.toMatchObject({ kind: 'storage-failure' });
      await expect(storage.checkHealth()).rejects.toMatchObject({ kind: 'storage-failure' });
    }
    expect(await view.files('uploads')).toEqual([]);
    expect(warnings.at(-1)).toContain(`${view.at(part)} was replaced, or another volume covers it`);
    disk.covered = '';
    letStoreBeProbedAgain();
    await storage.checkHealth();
    await storage.store(anUploadDraft().file(LARGE).build());
  });

  it('is unhealthy when its disk fails, without being opened again', async () => {
    stopClock();
    const disk = new GatedDisk();
    await open({ disk });
    const cause = disk.failNext('create');
    await expect(storage.checkHealth()).rejects.toMatchObject({ kind: 'storage-failure', cause });
    letStoreBeProbedAgain();
    await storage.checkHealth();
    expect(warnings).toEqual([]);
  });

  it('accepts no uploads when it is back but its disk fails', async () => {
    stopClock();
    const disk = new GatedDisk();
    await open({ disk });
    await rename(view.at('uploads'), view.at('.aside'));
    await expect(storage.store(anUploadDraft().build())).rejects.toMatchObject({ kind: 'storage-failure' });
    await rename(view.at('.aside'), view.at('uploads'));
    letStoreBeProbedAgain();
    disk.failNext('create');
    await expect(storage.store(anUploadDraft().build())).rejects.toMatchObject({ kind: 'storage-failure' });
    letStoreBeProbedAgain();
    await storage.store(anUploadDraft().build());
    expect(await view.lines()).toHaveLength(1);
    expect(warnings.filter((warning) => warning.includes('is back'))).toHaveLength(1);
  });

  it('continues when one of its volumes returns with another device number', async () => {
    const disk = new CoveredDisk();
    disk.covered = view.at('files');
    await open({ disk });
    await storage.store(anUploadDraft().file(LARGE).build());
    disk.device = 4n;
    await expect(storage.store(anUploadDraft().file(LARGE).build())).rejects.toMatchObject({ kind: 'storage-failure' });
    await storage.store(anUploadDraft().file(LARGE).build());
    expect(await view.lines()).toHaveLength(2);
  });

  it('prevents a second storage from opening until it is closed', async () => {
    const first = await open();
    await expect(LocalDiskFileStorage.open({ directory: view.directory })).rejects.toThrow(
      `DATA_DIR ${view.directory} is in use by another process`,
    );
    await first.close();
    await open();
  });

  it('releases its lock when it cannot be opened', async () => {
    const disk = new GatedDisk();
    disk.failNext('readDirectory');
    await expect(open({ disk })).rejects.toThrow('EIO');
    await open();
  });

  it('completes uploads whose last byte has arrived when it closes, and refuses the others', async () => {
    const disk = new GatedDisk();
    await open({ disk });
    const held = disk.holdNext('link');
    const finishing = storage.store(anUploadDraft().file(LARGE).build());
    await held.reached;
    const closing = [storage.close(), storage.onApplicationShutdown()];
    const late = [anUploadDraft(), anUploadDraft().file('late')].map((builder) => storage.store(builder.build()));
    await expect(late[0]).rejects.toMatchObject({ kind: 'storage-failure' });
    await expect(late[1]).rejects.toMatchObject({ kind: 'storage-failure' });
    await expect(storage.checkHealth()).rejects.toMatchObject({ kind: 'storage-failure' });
    held.release();
    const { uploadId } = await finishing;
    await Promise.all(closing);
    expect(await view.lines()).toMatchObject([{ upload_id: uploadId }]);
    expect(await view.files('staging')).toEqual([]);
    expect(await view.files('pending')).toEqual([]);
    await open();
  });
});
