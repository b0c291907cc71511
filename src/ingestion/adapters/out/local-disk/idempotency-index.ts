import { join } from 'node:path';
import { setImmediate as turnOfOthers } from 'node:timers/promises';
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

/** The most uploads and segments that one transaction writes to a database. Such a transaction takes milliseconds. */
const ROWS_AT_ONCE = 25;
/**
 * How long index lines are read before other work of the process can run, in milliseconds. A database transaction is
 * never interrupted.
 */
const MAX_TURN_MS = 10;

/** The services of a store that its idempotency keys use. */
export interface IdempotencySite extends KeySegmentsSite {
  readonly directories: DurableDirectories;
  readonly presence: Pick<StorePresence, 'assertHere'>;
  readonly logger: StorageLogger;
  /** Absolute path of the store's root directory. */
  readonly root: string;
}

/**
 * Finds uploads by their idempotency scopes, in one database for each UTC day, which is derived from the index lines of
 * that day. The database also lists the segments (files of index lines) whose keys it contains, with their lengths if
 * these are final.
 *
 * Segments of yesterday and later that no database lists with their final length are read before the first lookup, and
 * before the next lookup after damage to a database. A damaged database is set aside. So is one that lists a segment
 * that is missing, or whose length isn't the listed final one. So a database may be lost at any time, or restored from
 * a backup of any age.
 */
export class IdempotencyIndex {
  private readonly segments: KeySegments;
  private readonly databases: KeyDatabases;
  /**
   * A UTC day (`YYYY-MM-DD`): the index has all idempotency keys in the index lines of this day and later, except for
   * those of recent uploads that weren't passed to `add` yet. Undefined while the index isn't complete for any day.
   */
  private completeFrom: string | undefined;
  private completing: Promise<void> | undefined;
  /** Whether the last attempt to complete the index failed. */
  private hasFailed = false;
  private readonly jobs = new OneAtATime();
  private isClosed = false;
  /** Absolute paths of the directories of index lines (`uploads/kind=...`). Each may be a volume of its own. */
  private readonly source: readonly string[];

  constructor(
    private readonly site: IdempotencySite,
    /**
     * Parses an index line, and resolves to the line's upload and idempotency scope. Resolves to undefined if the line
     * has no idempotency key or isn't valid. Returns undefined, without parsing the line, if the line doesn't contain
     * the text `"idempotency_key":`.
     */
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
   * Undefined if `find` knows all uploads of the last 24 hours with an idempotency key, except for recent ones that
   * weren't passed to `add` yet. Otherwise a promise that resolves when the index was completed; then call `ready`
   * again. Rejects with StoreAwayError if the store goes away in the meantime, or the index is closed; with another
   * error if the index can't be completed.
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
   * Resolves if a call of `ready` can be expected to succeed. Does nothing if the index is complete. Otherwise opens
   * the segments that `ready` may need, and reads the beginning of one that this process doesn't write to. If one can't
   * be opened or read, or the last `ready` has failed, calls `ready`. This call may succeed, because `ready` may need
   * only some of the segments.
   *
   * @throws StoreAwayError; an error of the file system, or of `ready`.
   */
  async assertReadable(): Promise<void> {
    const from = firstKeptDay();
    if (!this.hasFailed && (this.completeFrom === from || (await this.segments.canRead(await this.segments.from(from))))) return;
    await this.ready();
  }

  /**
   * The upload of the last 24 hours that is stored under an idempotency scope; undefined if there is none. If the
   * databases of two days have such an upload, returns the upload of the earlier day.
   *
   * @throws DamagedDatabaseError. After any error, `ready` must complete the index again.
   */
  find(scope: string): IndexedUpload | undefined {
    for (const day of this.databases.openDays()) {
      const upload = this.databases.read(day, (database) => keptUpload(database, scope));
      if (upload) return upload;
    }
    return undefined;
  }

  /**
   * Adds uploads and segments to the databases of their days. Adding one again is safe. Whenever an upload is added,
   * its segment must be listed already or added in the same call, so that a later removal of the segment is noticed.
   * Whenever a segment is added with its length, all its uploads with a key must be there already or added in the same
   * call. While the index isn't complete for a day, the segments of that day aren't added.
   *
   * @param segments closed segments with their final length in bytes; segments that are open, or some of whose uploads
   *   may not be added yet, with `OPEN` instead.
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
   * Removes uploads from the index after their lines were removed from a segment, and overwrites their values in the
   * file of the day's database. The hashes of their idempotency scopes stay there. If `uploads` isn't empty, also
   * removes the databases of that day that were set aside, because these may have the keys of the uploads too. Those in
   * a directory that was set aside as a whole stay.
   *
   * @param segment the segment, with its new length in bytes; 0 if it has no more lines.
   */
  forget(segment: ListedSegment, uploads: readonly Pick<KeyedUpload, 'scope' | 'uploadId'>[]): Promise<void> {
    return this.jobs.run(async () => {
      this.assertUsable();
      const { day } = segmentEntry(segment);
      if (await this.databases.exists(day)) await this.erase(day, segment, uploads);
      // Comes last, because the database of the day may be found damaged, and set aside, only now.
      if (uploads.length > 0) await this.databases.removeSetAside(day);
    });
  }

  /**
   * Checks that names can be created in the directory of the databases, as `KeyDatabases.assertWritable` does.
   *
   * @throws DataDirectoryError
   */
  assertWritable(): Promise<void> {
    return this.databases.assertWritable();
  }

  /**
   * Closes the databases after additions in progress. No database is opened afterwards, because the next instance of
   * the store in this process must be able to lock them.
   */
  close(): Promise<void> {
    return this.jobs.run(() => {
      this.isClosed = true;
      this.completeFrom = undefined;
      return this.databases.close();
    });
  }

  private async erase(day: string, segment: ListedSegment, uploads: readonly Pick<KeyedUpload, 'scope' | 'uploadId'>[]): Promise<void> {
    for (let at = 0; at < uploads.length; at += ROWS_AT_ONCE) {
      if (at > 0) await turnOfOthers();
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
   * Checks that the index may be used. Call `assertUsable` also after each look at the disk: while the store is away,
   * its segments would look removed, and its databases would be created in the wrong place.
   *
   * @throws StoreAwayError if the index is closed or the store is away.
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

  /**
   * Reads the segments of the day `from` and later that no database lists with their final length, and adds the
   * idempotency keys in their lines. Starts again if a database is set aside meanwhile.
   */
  private async addMissingSegments(from: string): Promise<void> {
    this.databases.forgetMissing();
    for (let setAsides = -1; setAsides !== this.databases.setAsides; ) {
      ({ setAsides } = this.databases);
      const segments = await this.segments.from(from, (path) => { this.site.logger.warn(`${path} is not a regular file; skipping it.`); });
      const days = await this.databases.daysFrom(from);
      const missing: SegmentToRead[] = [];
      for (const day of new Set([...segments.map((segment) => segment.day), ...days])) {
        const unlisted = await this.unlisted(day, segments.filter((segment) => segment.day === day));
        // A segment from which the last line was removed isn't listed: its empty file is removed later.
        missing.push(...unlisted.filter(({ isOpen, length }) => isOpen || length > 0));
      }
      if (setAsides === this.databases.setAsides) await this.addSegments(missing);
    }
  }

  /**
   * Returns the segments of a day whose keys must be read, because the day's database doesn't list them with their
   * final length. If the database lists a segment that is missing or has changed, sets the database aside and returns
   * all segments of the day.
   */
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

  /**
   * Adds the idempotency keys in a segment's lines to the database of its day, and then lists the segment there, unless
   * a database was set aside meanwhile. Resolves to the number of lines with a key.
   */
  private async addSegment(segment: SegmentToRead, progress: LoggedProgress): Promise<number> {
    const { disk, root, logger } = this.site;
    const { day, path, length, isOpen } = segment;
    const { setAsides } = this.databases;
    // `file` is undefined if the segment was removed after its directory was listed.
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
        await turnOfOthers();
        turnBegan = performance.now();
      }
      await this.put(day, rows);
      await this.databases.use(day, (database) => {
        // If a database was set aside meanwhile, the new one lacks the keys that were added before. So it must not list
        // this segment, because a segment that is listed with its length isn't read again.
        if (setAsides === this.databases.setAsides) putEntries(database, [segmentEntry(isOpen ? { path, length: OPEN } : segment)]);
      });
      return count + rows.length;
    } finally {
      await file.close();
    }
  }

  private async put(day: string, entries: readonly DayEntry[]): Promise<void> {
    for (let at = 0; at < entries.length; at += ROWS_AT_ONCE) {
      if (at > 0) await turnOfOthers();
      await this.databases.use(day, (database) => {
        // While the index isn't complete for the day, its database may lack keys. So no segment is listed here, because
        // a segment that is listed with its length isn't read again.
        const isComplete = this.isComplete(day);
        putEntries(database, entries.slice(at, at + ROWS_AT_ONCE).filter(({ value }) => isComplete || typeof value !== 'number'));
      });
      await this.databases.use(day, (database) => database.checkpoint());
    }
  }
}

/** The earliest UTC day whose index lines may contain an idempotency key that is still kept (for 24 hours). */
const firstKeptDay = (): string => utcDate(new Date(Date.now() - IDEMPOTENCY_PERIOD_MS));
