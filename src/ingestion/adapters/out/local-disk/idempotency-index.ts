import { join } from 'node:path';
import { setImmediate as turnOfOthers } from 'node:timers/promises';
import type { LoggedProgress } from '../../../application/logged-progress.js';
import type { StorageLogger } from '../../../application/storage-logger.js';
import { IDEMPOTENCY_PERIOD_MS } from '../../../domain/idempotency.js';
import { linesDirectory, utcDate } from '../../../domain/layout.js';
import { UPLOAD_KINDS } from '../../../domain/upload.js';
import { StoreAwayError, unlessAbsent } from './disk-error.js';
import type { Disk } from './disk.js';
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
import { DamagedDatabaseError } from './self-checking-database.js';
import type { StorePresence } from './store-presence.js';

/**
 * The maximum number of rows that are written in one transaction of a database. Such a transaction takes a few
 * milliseconds.
 */
const ROWS_AT_ONCE = 25;
/**
 * How long lines of segments are read before other work of the process gets a turn, in milliseconds. A database
 * transaction is never interrupted.
 */
const LONGEST_TURN_MS = 10;

export interface IdempotencyIndexOptions {
  readonly disk: Disk;
  readonly directories: DurableDirectories;
  readonly presence: Pick<StorePresence, 'assertHere'>;
  readonly logger: StorageLogger;
  /** Absolute path of the store's root directory. */
  readonly root: string;
  /**
   * Parses an index line, and resolves to the line's upload and idempotency scope. Resolves to undefined if the line
   * has no idempotency key or isn't valid. Returns undefined, without parsing the line, if the line doesn't contain the
   * name `idempotency_key`.
   */
  readonly parse: (line: Buffer) => Promise<KeyedUpload | undefined> | undefined;
  /** The durable length in bytes of a segment that this process still writes to; undefined for any other segment. */
  readonly durableLength: (segment: string) => number | undefined;
}

interface SegmentToRead extends ListedSegment {
  readonly day: string;
  /** Whether this process still writes to the segment. */
  readonly isOpen: boolean;
}

/**
 * Finds an upload by its idempotency scope, in databases that are derived from the index lines, one database for each
 * UTC day. Each database also lists the segments whose keys it contains, with their lengths, and has the number of
 * these segments.
 *
 * The segments of yesterday and later that no database lists are read before the first lookup, and again after damage
 * to a database. A database that lists a segment which is missing or has another length is set aside, as a damaged one
 * is. So a database may be lost at any time, or restored from a backup of any age.
 */
export class IdempotencyIndex {
  private readonly databases: KeyDatabases;
  /**
   * The earliest UTC day such that the index contains all idempotency keys in the index lines of that day and later.
   * Only keys of recent uploads that `add` is yet to be called with may be missing. Undefined if no such day is known.
   */
  private completeFrom: string | undefined;
  private completing: Promise<void> | undefined;
  /** Whether the last attempt to complete the index failed. */
  private hasFailed = false;
  private turn: Promise<unknown> = Promise.resolve();
  private isClosed = false;
  /**
   * Absolute paths of the directories of index lines from which the index is derived. Each may be a volume of its own.
   */
  private readonly source: readonly string[];

  constructor(private readonly options: IdempotencyIndexOptions) {
    const { disk, directories, logger, root } = options;
    this.source = UPLOAD_KINDS.map((kind) => join(root, linesDirectory(kind)));
    const assertUsable = () => { this.assertUsable(); };
    const onLoss = () => (this.completeFrom = undefined);
    this.databases = new KeyDatabases({ disk, directories, logger, root, assertUsable, onLoss });
  }

  /**
   * Undefined if `find` knows all uploads of the last 24 hours with an idempotency key. Otherwise a promise: await it,
   * then call `ready` again. The promise resolves when the index is complete.
   *
   * Rejects with StoreAwayError if the store goes away in the meantime, or the index is closed. Rejects with another
   * error if the index can't be completed.
   */
  ready(): Promise<void> | undefined {
    const from = firstKeptDay();
    if (this.completeFrom === from) return undefined;
    this.completing ??= this.inTurn(() => this.complete(from))
      .then(() => { this.hasFailed = false; }, (error: unknown) => {
        this.hasFailed = true;
        throw error;
      })
      .finally(() => (this.completing = undefined));
    return this.completing;
  }

  /**
   * Resolves if `ready` is expected to resolve. Opens the segments that `ready` would read, without reading them, and
   * repeats a `ready` that failed.
   *
   * @throws StoreAwayError; an error of the file system, or of the failed attempt.
   */
  async assertReadable(): Promise<void> {
    if (this.hasFailed) return this.ready();
    const from = firstKeptDay();
    if (this.completeFrom === from) return;
    const { disk, root } = this.options;
    for (const { path } of await this.segmentsFrom(from)) await (await unlessAbsent(disk.open(join(root, path))))?.close();
  }

  /**
   * The upload that is now kept under an idempotency scope; undefined if there is none. If the databases of two days
   * have one, the upload in that of the earlier day.
   *
   * @throws DamagedDatabaseError. After any error the index is no longer `ready`.
   */
  find(scope: string): IndexedUpload | undefined {
    for (const day of this.databases.openDays()) {
      const upload = this.databases.read(day, (database) => keptUpload(database, scope));
      if (upload) return upload;
    }
    return undefined;
  }

  /**
   * Adds uploads and segments to the databases of their days, some of which may be there already. The segment of each
   * upload must be added in the same call or be listed already, so that a later removal of the segment is noticed. All
   * uploads of a closed segment must be added in the same call or be there already.
   *
   * @param segments open and closed segments, each with its final length in bytes, or `OPEN`.
   */
  add(uploads: readonly KeyedUpload[], segments: readonly ListedSegment[]): Promise<void> {
    return this.inTurn(async () => {
      this.assertUsable();
      const entries = [...uploads.map((upload) => uploadEntry(utcDate(upload.receivedAt), upload)), ...segments.map(segmentEntry)];
      for (const day of new Set(entries.map((entry) => entry.day))) {
        await this.put(day, entries.filter((entry) => entry.day === day));
      }
    });
  }

  /**
   * Removes uploads from the index after their lines were removed from a segment, and overwrites their keys on disk.
   *
   * @param segment the segment, with its new length in bytes; 0 if the segment was removed.
   */
  forget(segment: ListedSegment, uploads: readonly Pick<KeyedUpload, 'scope' | 'uploadId'>[]): Promise<void> {
    return this.inTurn(async () => {
      this.assertUsable();
      const { day } = segmentEntry(segment);
      if (!(await this.databases.exists(day))) return;
      for (let at = 0; at < uploads.length; at += ROWS_AT_ONCE) {
        if (at > 0) await turnOfOthers();
        await this.databases.use(day, (database) => { eraseUploads(database, uploads.slice(at, at + ROWS_AT_ONCE)); });
        await this.databases.use(day, (database) => database.checkpoint());
      }
      await this.databases.use(day, (database) => { changeSegment(database, segment); });
      await this.databases.use(day, (database) => database.checkpoint(true));
    });
  }

  /**
   * Resolves if the databases of the index can be written.
   *
   * @throws DataDirectoryError as `KeyDatabases.assertWritable` does.
   */
  assertWritable(): Promise<void> {
    return this.databases.assertWritable();
  }

  /**
   * Closes the databases when additions in progress are done. No database is opened afterwards, because the next
   * instance of the store in this process must be able to lock them.
   */
  close(): Promise<void> {
    return this.inTurn(() => {
      this.isClosed = true;
      this.completeFrom = undefined;
      this.databases.close();
      return Promise.resolve();
    });
  }

  private inTurn<T>(work: () => Promise<T>): Promise<T> {
    const done = this.turn.then(work);
    this.turn = done.catch(() => undefined);
    return done;
  }

  private isComplete(day: string): boolean {
    return this.completeFrom !== undefined && day >= this.completeFrom;
  }

  /**
   * Call `assertUsable` also after each look at the disk. While the store is away, its segments would look removed, and
   * its databases would be created in the wrong place.
   *
   * @throws StoreAwayError if the index is closed or the store is away.
   */
  private assertUsable(): void {
    if (this.isClosed) throw new StoreAwayError('The index of idempotency keys is closed');
    this.options.presence.assertHere(this.source);
  }

  private async complete(from: string): Promise<void> {
    this.assertUsable();
    await this.databases.setDamagedAside();
    if (this.completeFrom === undefined || from < this.completeFrom) await this.addMissingSegments(from);
    this.assertUsable();
    this.completeFrom = from;
    await this.databases.removeExpired(from).catch((error: unknown) => {
      if (error instanceof StoreAwayError) throw error;
      this.options.logger.warn(`Removing expired databases from ${this.databases.directory} failed; retrying tomorrow.`, error);
    });
  }

  /**
   * Reads those segments of a day and later that no database lists, and adds the idempotency keys in their lines.
   * Starts again if a database is set aside meanwhile.
   */
  private async addMissingSegments(from: string): Promise<void> {
    this.databases.forgetMissing();
    for (let setAsides = -1; setAsides !== this.databases.setAsides; ) {
      ({ setAsides } = this.databases);
      const segments = await this.segmentsFrom(from, (path) => { this.options.logger.warn(`${path} is not a regular file; skipping it.`); });
      const days = await this.databases.daysFrom(from);
      const missing: SegmentToRead[] = [];
      for (const day of new Set([...segments.map((segment) => segment.day), ...days])) {
        missing.push(...(await this.unlisted(day, segments.filter((segment) => segment.day === day))));
      }
      if (setAsides === this.databases.setAsides) await this.addSegments(missing);
    }
  }

  /**
   * The segments of a day whose keys must be read, because the day's database doesn't list them with their final
   * length. Sets the database aside, and returns all segments, if it lists a segment that is missing or has changed.
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
    const progress = keyReadingProgress(this.options.logger, segments);
    const keys = new Map<string, number>();
    for (const segment of segments) {
      const added = await this.addSegment(segment, progress);
      if (!segment.isOpen) keys.set(segment.day, (keys.get(segment.day) ?? 0) + added);
    }
    progress.end();
    for (const [day, count] of keys) {
      if (!this.databases.wasMissing(day) || count === 0) continue;
      this.options.logger.warn(`${this.databases.pathOf(day)} was missing. It was rebuilt from the lines of its day: ${count} keys.`);
    }
  }

  /** Adds the idempotency keys in the lines of a segment to the database of the day. Resolves to the number of keys. */
  private async addSegment(segment: SegmentToRead, progress: LoggedProgress): Promise<number> {
    const { disk, root, parse, logger } = this.options;
    const { day, path, length, isOpen } = segment;
    const { setAsides } = this.databases;
    // Undefined if the segment was removed after its directory was listed.
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
        const parsing = parse(line);
        const upload = parsing && (await parsing);
        if (upload) rows.push(uploadEntry(day, upload));
        if (rows.length < ROWS_AT_ONCE && performance.now() - turnBegan < LONGEST_TURN_MS) continue;
        await this.put(day, rows);
        count += rows.length;
        rows = [];
        await turnOfOthers();
        turnBegan = performance.now();
      }
      await this.put(day, rows);
      await this.databases.use(day, (database) => {
        // If a database was set aside meanwhile, the new one lacks the keys that were added before, so it must not list
        // the segment as read.
        if (setAsides === this.databases.setAsides) putEntries(database, [segmentEntry(isOpen ? { path, length: OPEN } : segment)]);
      });
      return count + rows.length;
    } finally {
      await file.close();
    }
  }

  /**
   * The segments of a given day and later, sorted by day. Skips anything but regular files, and calls `onSkipped` with
   * their paths.
   */
  private async segmentsFrom(from: string, onSkipped: (path: string) => void = () => undefined): Promise<SegmentToRead[]> {
    const { disk, root, durableLength } = this.options;
    const segments: SegmentToRead[] = [];
    for (const kind of UPLOAD_KINDS) {
      for (const directory of await this.namesIn(`uploads/kind=${kind}`)) {
        const day = /^date=(\d{4}-\d\d-\d\d)$/.exec(directory)?.[1];
        if (day === undefined || day < from) continue;
        for (const name of await this.namesIn(`uploads/kind=${kind}/${directory}`)) {
          const path = `uploads/kind=${kind}/${directory}/${name}`;
          if (!/^[^.].*\.ndjson$/s.test(name)) continue;
          const open = durableLength(path);
          const length = open ?? (await disk.plainFileSize(join(root, path)));
          if (length === undefined) onSkipped(path);
          else segments.push({ day, path, length, isOpen: open !== undefined });
        }
      }
    }
    return segments.sort((one, other) => (one.day < other.day ? -1 : Number(one.day > other.day)));
  }

  private async namesIn(path: string): Promise<string[]> {
    const names = await unlessAbsent(this.options.disk.readDirectory(join(this.options.root, path)));
    this.assertUsable();
    return names ?? [];
  }

  private async put(day: string, entries: readonly DayEntry[]): Promise<void> {
    for (let at = 0; at < entries.length; at += ROWS_AT_ONCE) {
      if (at > 0) await turnOfOthers();
      await this.databases.use(day, (database) => {
        // A database that may lack keys must not list segments, because a listed segment isn't read again.
        const isComplete = this.isComplete(day);
        putEntries(database, entries.slice(at, at + ROWS_AT_ONCE).filter(({ value }) => isComplete || typeof value !== 'number'));
      });
      await this.databases.use(day, (database) => database.checkpoint());
    }
  }
}

/** The earliest UTC day whose index lines may contain a key that is still kept (for 24 hours). */
const firstKeptDay = (): string => utcDate(new Date(Date.now() - IDEMPOTENCY_PERIOD_MS));
