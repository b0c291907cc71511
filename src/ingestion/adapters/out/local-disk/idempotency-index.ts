import { join } from 'node:path';
import { setImmediate as nextIteration } from 'node:timers/promises';
import { OneAtATime } from '../../../../common/one-at-a-time.js';
import type { LoggedProgress } from '../../../application/logged-progress.js';
import type { StorageLogger } from '../../../application/storage-logger.js';
import { IDEMPOTENCY_PERIOD_MS } from '../../../domain/idempotency.js';
import { linesDirectory, utcDate } from '../../../domain/layout.js';
import { UPLOAD_KINDS } from '../../../domain/upload.js';
import { StoreAwayError, unlessAbsent } from './disk-error.js';
import type { DurableDirectories } from './durable-directories.js';
import { foreignLineWarning, readLines } from './index-lines.js';
import { KeyDatabases } from './key-databases.js';
import {
  changeSegment,
  type DayEntry,
  eraseUploads,
  type IndexedUpload,
  type KeyedUpload,
  keptUpload,
  type ListedSegment,
  listedLength,
  OPEN,
  putEntries,
  segmentCount,
  segmentEntry,
  uploadEntry,
} from './key-entries.js';
import { keyReadingProgress } from './key-reading-progress.js';
import { KeySegments, type KeySegmentsSite, type SegmentToRead } from './key-segments.js';
import { DamagedDatabaseError } from './self-checking-database.js';
import type { StorePresence } from './store-presence.js';

/** At most this many rows are written in one transaction, which then takes milliseconds. */
const ROWS_AT_ONCE = 25;
const MAX_TURN_MS = 10;

export interface IdempotencySite extends KeySegmentsSite {
  readonly directories: DurableDirectories;
  readonly presence: Pick<StorePresence, 'assertHere'>;
  readonly logger: StorageLogger;
  readonly root: string;
}

/**
 * Finds uploads by their idempotency scopes (kind, key and customer), in one database for each UTC day. A database is
 * derived from the index lines of its day, and lists the segments (files of index lines) whose keys it contains.
 *
 * Before the first lookup, and again after damage to a database, those recent segments are read that aren't listed with
 * their final length. A database that is damaged or doesn't match its segments is rebuilt from their lines. So a
 * database may be lost at any time, or restored from a backup of any age.
 */
export class IdempotencyIndex {
  private readonly segments: KeySegments;
  private readonly databases: KeyDatabases;
  /** The index has the keys of this UTC day and later, except recent ones that weren't passed to `add` yet. */
  private completeFrom: string | undefined;
  private completing: Promise<void> | undefined;
  private hasFailed = false;
  private readonly jobs = new OneAtATime();
  private isClosed = false;
  private readonly source: readonly string[];

  constructor(
    private readonly site: IdempotencySite,
    private readonly parse: (line: Buffer) => Promise<KeyedUpload | undefined> | undefined,
  ) {
    const { disk, directories, logger, root } = site;
    this.source = UPLOAD_KINDS.map((kind) => join(root, linesDirectory(kind)));
    const assertUsable = () => { this.assertUsable(); };
    this.segments = new KeySegments(site, assertUsable);
    const onLoss = () => (this.completeFrom = undefined);
    this.databases = new KeyDatabases({ disk, directories, logger, root, assertUsable, onLoss });
  }

  /**
   * Returns undefined if `find` knows all uploads of the last 24 hours with a key, except recent ones that weren't
   * passed to `add` yet. Otherwise returns a promise that resolves when the index was completed; then call `ready`
   * again. The promise rejects if that fails, with StoreAwayError if the store is away or the index closed.
   */
  ready(): Promise<void> | undefined {
    const from = firstKeptDay();
    if (this.completeFrom === from) return undefined;
    this.completing ??= this.jobs.run(() => this.complete(from))
      .then(() => { this.hasFailed = false; }, (error: unknown) => {
        this.hasFailed = true;
        throw error;
      })
      .finally(() => (this.completing = undefined));
    return this.completing;
  }

  /**
   * Resolves if a call of `ready` can be expected to succeed. May call `ready` to find out.
   *
   * @throws StoreAwayError; an error of the file system, or of `ready`.
   */
  async assertReadable(): Promise<void> {
    const from = firstKeptDay();
    if (!this.hasFailed && (this.completeFrom === from || (await this.segments.canRead(await this.segments.from(from))))) return;
    await this.ready();
  }

  /**
   * The upload of the last 24 hours that is stored under an idempotency scope; undefined if there is none.
   *
   * @throws DamagedDatabaseError. After any error, the index is incomplete until `ready` has completed it again.
   */
  find(scope: string): IndexedUpload | undefined {
    for (const day of this.databases.openDays()) {
      const upload = this.databases.read(day, (database) => keptUpload(database, scope));
      if (upload) return upload;
    }
    return undefined;
  }

  /**
   * Adds uploads and segments. Adding one again is safe. The segment of an upload must be listed already or added in
   * the same call, so that a later removal of the segment is noticed. A segment with its length must come with all its
   * uploads with a key that weren't added before, because it isn't read again.
   *
   * @param segments closed segments, each with its final length in bytes. `OPEN` replaces the length of a segment that
   *   is open, or some of whose uploads may not be added yet.
   */
  add(uploads: readonly KeyedUpload[], segments: readonly ListedSegment[]): Promise<void> {
    return this.jobs.run(async () => {
      this.assertUsable();
      const entries = [...uploads.map((upload) => uploadEntry(utcDate(upload.receivedAt), upload)), ...segments.map(segmentEntry)];
      for (const day of new Set(entries.map((entry) => entry.day))) {
        await this.put(day, entries.filter((entry) => entry.day === day));
      }
    });
  }

  /**
   * Removes uploads whose lines were removed from a segment. Overwrites their values in the day's database file, where
   * hashes of their scopes stay. If any uploads are given, also removes the day's databases that were set aside as
   * damaged, except those in a directory that was set aside as a whole.
   *
   * @param segment the segment, with its new length in bytes; 0 if it has no more lines.
   */
  forget(segment: ListedSegment, uploads: readonly Pick<KeyedUpload, 'scope' | 'uploadId'>[]): Promise<void> {
    return this.jobs.run(async () => {
      this.assertUsable();
      const { day } = segmentEntry(segment);
      if (await this.databases.exists(day)) await this.erase(day, segment, uploads);
      // Last, because `erase` may only now have found the database of the day damaged, and set it aside.
      if (uploads.length > 0) await this.databases.removeSetAside(day);
    });
  }

  /** @throws DataDirectoryError if the directory of the databases can't be written, and replacing it wouldn't help. */
  assertWritable(): Promise<void> {
    return this.databases.assertWritable();
  }

  /** Closes the databases for good, so that the next instance of the store in this process can lock them. */
  close(): Promise<void> {
    return this.jobs.run(() => {
      this.isClosed = true;
      this.completeFrom = undefined;
      return this.databases.close();
    });
  }

  private async erase(day: string, segment: ListedSegment, uploads: readonly Pick<KeyedUpload, 'scope' | 'uploadId'>[]): Promise<void> {
    for (let at = 0; at < uploads.length; at += ROWS_AT_ONCE) {
      if (at > 0) await nextIteration();
      await this.databases.use(day, (database) => { eraseUploads(database, uploads.slice(at, at + ROWS_AT_ONCE)); });
      await this.databases.use(day, (database) => database.checkpoint());
    }
    await this.databases.use(day, (database) => { changeSegment(database, segment); });
    await this.databases.use(day, (database) => database.checkpoint(true));
  }

  private isComplete(day: string): boolean {
    return this.completeFrom !== undefined && day >= this.completeFrom;
  }

  /**
   * Throws StoreAwayError if the index is closed or the store is away. Call it also after each look at the disk: while
   * the store is away, its segments would look removed.
   */
  private assertUsable(): void {
    if (this.isClosed) throw new StoreAwayError('The index of idempotency keys is closed');
    this.site.presence.assertHere(this.source);
  }

  private async complete(from: string): Promise<void> {
    this.assertUsable();
    await this.databases.setDamagedAside();
    if (this.completeFrom === undefined || from < this.completeFrom) await this.addMissingSegments(from);
    this.assertUsable();
    this.completeFrom = from;
    await this.databases.removeExpired(from).catch((error: unknown) => {
      if (error instanceof StoreAwayError) throw error;
      this.site.logger.warn(`Removing expired databases from ${this.databases.directory} failed; retrying tomorrow.`, error);
    });
  }

  private async addMissingSegments(from: string): Promise<void> {
    this.databases.forgetMissing();
    for (let setAsides = -1; setAsides !== this.databases.setAsides; ) {
      ({ setAsides } = this.databases);
      const segments = await this.segments.from(from, (path) => { this.site.logger.warn(`${path} is not a regular file; skipping it.`); });
      const days = await this.databases.daysFrom(from);
      const missing: SegmentToRead[] = [];
      for (const day of new Set([...segments.map((segment) => segment.day), ...days])) {
        const unlisted = await this.unlisted(day, segments.filter((segment) => segment.day === day));
        // A closed segment without lines isn't missing: its last line was removed, and its empty file is removed later.
        missing.push(...unlisted.filter(({ isOpen, length }) => isOpen || length > 0));
      }
      if (setAsides === this.databases.setAsides) await this.addSegments(missing);
    }
  }

  private async unlisted(day: string, segments: readonly SegmentToRead[]): Promise<SegmentToRead[]> {
    const { lengths, count } = await this.databases.use(day, (database) => ({
      lengths: segments.map(({ path }) => listedLength(database, path)),
      count: segmentCount(database),
    }));
    const unchanged = segments.filter(({ length }, index) => lengths[index] === OPEN || lengths[index] === length);
    if (count === unchanged.length) return segments.filter(({ length, isOpen }, index) => isOpen || lengths[index] !== length);
    await this.databases.setAside(day, new DamagedDatabaseError(this.databases.pathOf(day), 'segments that it lists were removed or changed'));
    return [...segments];
  }

  private async addSegments(segments: readonly SegmentToRead[]): Promise<void> {
    const progress = keyReadingProgress(this.site.logger, segments);
    const keys = new Map<string, number>();
    for (const segment of segments) {
      const added = await this.addSegment(segment, progress);
      if (!segment.isOpen) keys.set(segment.day, (keys.get(segment.day) ?? 0) + added);
    }
    progress.end();
    for (const [day, count] of keys) {
      if (!this.databases.wasMissing(day) || count === 0) continue;
      this.site.logger.warn(`${this.databases.pathOf(day)} was missing. It was rebuilt from the lines of its day: ${count} keys.`);
    }
  }

  private async addSegment(segment: SegmentToRead, progress: LoggedProgress): Promise<number> {
    const { disk, root, logger } = this.site;
    const { day, path, length, isOpen } = segment;
    const { setAsides } = this.databases;
    const file = await unlessAbsent(disk.open(join(root, path)));
    if (!file) {
      this.assertUsable();
      return 0;
    }
    try {
      let count = 0;
      let rows: DayEntry[] = [];
      let turnBegan = performance.now();
      for await (const line of readLines(file, 0, length, () => { logger.warn(foreignLineWarning(join(root, path))); })) {
        progress.add(line.length + 1);
        const parsing = this.parse(line);
        const upload = parsing && (await parsing);
        if (upload) rows.push(uploadEntry(day, upload));
        if (rows.length < ROWS_AT_ONCE && performance.now() - turnBegan < MAX_TURN_MS) continue;
        await this.put(day, rows);
        count += rows.length;
        rows = [];
        await nextIteration();
        turnBegan = performance.now();
      }
      await this.put(day, rows);
      await this.databases.use(day, (database) => {
        // If a database was set aside as damaged meanwhile, keys are missing from the new one. The segment then isn't
        // listed, because a listed one wouldn't be read again.
        if (setAsides === this.databases.setAsides) putEntries(database, [segmentEntry(isOpen ? { path, length: OPEN } : segment)]);
      });
      return count + rows.length;
    } finally {
      await file.close();
    }
  }

  private async put(day: string, entries: readonly DayEntry[]): Promise<void> {
    for (let at = 0; at < entries.length; at += ROWS_AT_ONCE) {
      if (at > 0) await nextIteration();
      await this.databases.use(day, (database) => {
        // Lists no segment while keys of the day may be missing: a segment listed with its length isn't read again.
        const isComplete = this.isComplete(day);
        putEntries(database, entries.slice(at, at + ROWS_AT_ONCE).filter(({ value }) => isComplete || typeof value !== 'number'));
      });
      await this.databases.use(day, (database) => database.checkpoint());
    }
  }
}

const firstKeptDay = (): string => utcDate(new Date(Date.now() - IDEMPOTENCY_PERIOD_MS));
