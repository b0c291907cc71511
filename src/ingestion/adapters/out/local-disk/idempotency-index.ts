import { basename, join } from 'node:path';
import { setImmediate as turnOfOthers } from 'node:timers/promises';
import type { UploadReceipt } from '../../../application/ports/file-storage.port.js';
import type { StorageLogger } from '../../../application/storage-logger.js';
import { DataDirectoryError } from '../../../../common/data-directory/data-directory-error.js';
import { DATABASE_SUFFIXES } from '../../../../common/data-directory/database-files.js';
import { IDEMPOTENCY_PERIOD_MS, isKeptUnderKey } from '../../../domain/idempotency.js';
import { linesDirectory, utcDate } from '../../../domain/layout.js';
import { UPLOAD_KINDS } from '../../../domain/upload.js';
import { hasCode, StoreAwayError, unlessAbsent } from './disk-error.js';
import type { Disk } from './disk.js';
import type { DurableDirectories } from './durable-directories.js';
import { readLines } from './index-lines.js';
import { DamagedDatabaseError, type SelfCheckingDatabase } from './self-checking-database.js';
import type { StorePresence } from './store-presence.js';

/** Rows per transaction. A transaction takes a few milliseconds. */
const ROWS_AT_ONCE = 25;
/** How long segments are read before other work gets a turn, in milliseconds. A transaction is never interrupted. */
const LONGEST_TURN_MS = 10;
const PROGRESS_EVERY_MS = 2_000;
/** How many days a database is kept after its last key expired, so that a clock that jumps causes no rebuild. */
const DAYS_KEPT = 7;
/** How many damaged databases of one day are kept for inspection, at most. */
const MOST_SET_ASIDE = 5;
const DAY_MS = 24 * 60 * 60 * 1000;
const MIB = 1024 * 1024;

/** An upload and its idempotency scope, under which repeated requests find the upload. */
export interface KeyedUpload extends Omit<UploadReceipt, 'replayed'> {
  readonly scope: string;
  /** `requestDigest` of the upload. */
  readonly request: string;
  readonly receivedAt: Date;
}

/** The part of an upload that is needed to answer a repeated request. */
export interface IndexedUpload {
  readonly receipt: UploadReceipt;
  /** `requestDigest` of the upload. */
  readonly request: string;
}

/**
 * Stands for the length of a segment that still accepts lines. The index may have the keys of only some of these lines.
 */
export const OPEN = -1;

/** A segment, as a database records it: either still open, or with its final length. */
export interface ListedSegment {
  /** Path of the segment, relative to the store's root. */
  readonly path: string;
  /** The length in bytes; `OPEN` while the segment accepts lines. */
  readonly length: number;
}

export interface IdempotencyIndexOptions {
  readonly disk: Disk;
  readonly directories: DurableDirectories;
  readonly presence: Pick<StorePresence, 'assertHere'>;
  readonly logger: StorageLogger;
  /** Absolute path of the store's root directory. */
  readonly root: string;
  /** Parses an index line into its upload; undefined if the line has no key or isn't a valid index line. */
  readonly parse: (line: Buffer) => Promise<KeyedUpload | undefined> | undefined;
  /** How many bytes are durable of a segment that this process writes to; undefined for other segments. */
  readonly durableLength: (segment: string) => number | undefined;
}

interface Row {
  readonly request: string;
  /** Milliseconds since 1970. */
  readonly receivedAt: number;
  readonly uploadId: string;
  readonly size: number | null;
  readonly sha256: string | null;
}

interface DayEntry {
  /** A UTC day, `YYYY-MM-DD`. */
  readonly day: string;
  readonly name: string;
  /** The row of an upload, or the length of a segment. In the database, null stands for a removed upload or segment. */
  readonly value: Row | number;
}

interface SegmentToRead extends ListedSegment {
  readonly day: string;
  /** Whether this process still writes to the segment. */
  readonly isOpen: boolean;
}

/**
 * Finds an upload by its idempotency scope. `idempotency/` contains a database for each UTC day, derived from the day's
 * index lines. Each database also lists the segments whose keys it contains, with their lengths, and has the number of
 * these segments.
 *
 * Before the first lookup, and again after damage, the segments of yesterday and later that no database lists are read.
 * A database that lists a segment which is missing or has another length is set aside. So a database may be lost at any
 * time, or restored from a backup of any age.
 *
 * Setting a database aside means that it is renamed, reported once, and rebuilt. This is also done with a damaged one.
 * If five of its day were renamed already, the database is removed instead.
 */
export class IdempotencyIndex {
  private readonly days = new Map<string, SelfCheckingDatabase>();
  private readonly damaged = new Map<string, DamagedDatabaseError>();
  /** Days whose database file was missing, so that a new one was created. */
  private readonly absent = new Set<string>();
  /** Days whose database was set aside (renamed or removed) by this process, so that it isn't reported as missing. */
  private readonly rebuilt = new Set<string>();
  /**
   * The first UTC day from which on the index contains all keys in the index lines, apart from the keys of recent
   * uploads that `add` is yet to be called with. Undefined if there may be no such day.
   */
  private completeFrom: string | undefined;
  private completing: Promise<void> | undefined;
  private turn: Promise<unknown> = Promise.resolve();
  private setAsides = 0;
  private isClosed = false;
  /** The directories of the index lines from which the index is derived. Each may be a volume of its own. */
  private readonly source: readonly string[];

  constructor(private readonly options: IdempotencyIndexOptions) {
    this.source = UPLOAD_KINDS.map((kind) => join(options.root, linesDirectory(kind)));
  }

  /**
   * Undefined if `find` knows all uploads of the last 24 hours. Otherwise await the result, then call `ready` again.
   *
   * Rejects with StoreAwayError if the store goes away in the meantime, or the index is closed. Rejects with another
   * error if the index can't be completed.
   */
  ready(): Promise<void> | undefined {
    const from = firstKeptDay();
    if (this.completeFrom === from) return undefined;
    this.completing ??= this.inTurn(() => this.complete(from)).finally(() => (this.completing = undefined));
    return this.completing;
  }

  /**
   * The upload that is now kept under a scope; undefined if there is none. If there are uploads of two days, the one of
   * the earlier day.
   *
   * @throws DamagedDatabaseError. After any error the index is no longer `ready`.
   */
  find(scope: string): IndexedUpload | undefined {
    for (const day of [...this.days.keys()].sort()) {
      const row = this.read(day, uploadName(scope)) as Row | null | undefined;
      if (row && isKeptUnderKey(new Date(row.receivedAt))) return { receipt: receiptOf(row), request: row.request };
    }
    return undefined;
  }

  /**
   * Adds uploads and segments, some of which may be known already. An upload's segment must be known or be added in the
   * same call, so that the removal of the segment is noticed. All uploads of a closed segment must be known or be added
   * in the same call.
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
   * Removes uploads from the index, and the traces of their keys, after their lines were removed from a segment.
   *
   * @param segment the segment, with its new length; 0 if the segment was removed.
   */
  forget(segment: ListedSegment, uploads: readonly Pick<KeyedUpload, 'scope' | 'uploadId'>[]): Promise<void> {
    return this.inTurn(async () => {
      this.assertUsable();
      const { day } = segmentEntry(segment);
      const names = (await unlessAbsent(this.options.disk.readDirectory(this.directory))) ?? [];
      if (!names.includes(`${day}.db`)) return;
      for (let at = 0; at < uploads.length; at += ROWS_AT_ONCE) {
        if (at > 0) await turnOfOthers();
        await this.onDay(day, (database) => {
          const removed = uploads.slice(at, at + ROWS_AT_ONCE).filter(({ scope, uploadId }) => (database.get(uploadName(scope)) as Row | null | undefined)?.uploadId === uploadId);
          database.erase(removed.map(({ scope }) => uploadName(scope)));
        });
        await this.onDay(day, (database) => database.checkpoint());
      }
      await this.onDay(day, (database) => {
        const listed = database.get(segmentName(segment.path));
        // If a segment is listed as open, some of its keys may not be in the index yet. They are added later, together
        // with its final length.
        if (typeof listed !== 'number' || (listed === OPEN && segment.length > 0)) return;
        const count: (readonly [string, unknown])[] = segment.length === 0 ? [[SEGMENT_COUNT, Number(database.get(SEGMENT_COUNT)) - 1]] : [];
        database.putAll([[segmentName(segment.path), segment.length || null], ...count], () => true);
      });
      await this.onDay(day, (database) => database.checkpoint(true));
    });
  }

  /**
   * Resolves if databases can be written. Also resolves if none exist yet, or if the next upload can set aside what is
   * in their way.
   *
   * @throws DataDirectoryError if the directory can't be written and can't be set aside, for example on a read-only
   *   volume.
   */
  async assertWritable(): Promise<void> {
    const { disk } = this.options;
    await unlessAbsent(disk.assertWritable(this.directory)).catch((error: unknown) => {
      if (isObstacle(error)) return;
      throw new DataDirectoryError(`${this.directory} can't be written (${(error as Error).message}): mount it for writing`, { cause: error });
    });
  }

  /**
   * Closes the databases when additions in progress are done. Opens none afterwards, because the next store in this
   * process needs the databases.
   */
  close(): Promise<void> {
    return this.inTurn(() => {
      this.isClosed = true;
      this.completeFrom = undefined;
      for (const database of this.days.values()) database.close();
      this.days.clear();
      return Promise.resolve();
    });
  }

  private get directory(): string {
    return join(this.options.root, 'idempotency');
  }

  private inTurn<T>(work: () => Promise<T>): Promise<T> {
    const done = this.turn.then(work);
    this.turn = done.catch(() => undefined);
    return done;
  }

  private isComplete(day: string): boolean {
    return this.completeFrom !== undefined && day >= this.completeFrom;
  }

  private read(day: string, name: string): unknown {
    try {
      return this.days.get(day)?.get(name);
    } catch (error) {
      this.completeFrom = undefined;
      if (error instanceof DamagedDatabaseError) this.damaged.set(day, error);
      throw error;
    }
  }

  /**
   * Call `assertUsable` after each look at the disk too: while the store is away, its segments would look removed, and
   * its databases would be created elsewhere.
   *
   * @throws StoreAwayError if the index is closed or the store is away.
   */
  private assertUsable(): void {
    if (this.isClosed) throw new StoreAwayError('The index of idempotency keys is closed');
    this.options.presence.assertHere(this.source);
  }

  private async complete(from: string): Promise<void> {
    this.assertUsable();
    for (const [day, error] of this.damaged) await this.setAside(day, error);
    if (this.completeFrom === undefined || from < this.completeFrom) await this.addMissingSegments(from);
    this.assertUsable();
    this.completeFrom = from;
    await this.removeExpired(from).catch((error: unknown) => {
      if (error instanceof StoreAwayError) throw error;
      this.options.logger.warn(`Removing expired databases from ${this.directory} failed; retrying tomorrow.`, error);
    });
  }

  /**
   * Reads the segments of a day and later that the databases don't list, and adds the idempotency keys in their lines.
   * Starts again if a database is set aside meanwhile.
   */
  private async addMissingSegments(from: string): Promise<void> {
    this.absent.clear();
    for (let setAsides = -1; setAsides !== this.setAsides; ) {
      ({ setAsides } = this);
      const segments = await this.segmentsFrom(from);
      const days = await this.daysFrom(from);
      const missing: SegmentToRead[] = [];
      for (const day of new Set([...segments.map((segment) => segment.day), ...days])) {
        missing.push(...(await this.unlisted(day, segments.filter((segment) => segment.day === day))));
      }
      if (setAsides === this.setAsides) await this.addSegments(missing);
    }
  }

  /**
   * The segments of a day whose keys must be read. Sets the database aside if it lists a segment that is missing or has
   * changed.
   */
  private async unlisted(day: string, segments: readonly SegmentToRead[]): Promise<SegmentToRead[]> {
    const { lengths, count } = await this.onDay(day, (database) => ({
      lengths: segments.map(({ path }) => database.get(segmentName(path))),
      count: database.get(SEGMENT_COUNT) ?? 0,
    }));
    const unchanged = segments.filter(({ length }, index) => lengths[index] === OPEN || lengths[index] === length);
    if (count === unchanged.length) return segments.filter(({ length, isOpen }, index) => isOpen || lengths[index] !== length);
    await this.setAside(day, new DamagedDatabaseError(this.pathOf(day), 'segments that it lists were removed or changed'));
    return [...segments];
  }

  /** The days from a given day on that have a database. */
  private async daysFrom(from: string): Promise<string[]> {
    const names = await this.makeDirectory();
    return names.flatMap((name) => /^(\d{4}-\d\d-\d\d)\.db$/.exec(name)?.[1] ?? []).filter((day) => day >= from);
  }

  private async addSegments(segments: readonly SegmentToRead[]): Promise<void> {
    const progress = new ReadingProgress(this.options.logger, segments);
    const keys = new Map<string, number>();
    for (const segment of segments) {
      const added = await this.addSegment(segment, progress);
      if (!segment.isOpen) keys.set(segment.day, (keys.get(segment.day) ?? 0) + added);
    }
    progress.end();
    for (const [day, count] of keys) {
      if (!this.absent.delete(day) || count === 0) continue;
      this.options.logger.warn(`${this.pathOf(day)} was missing. It was rebuilt from the lines of its day: ${count} keys.`);
    }
  }

  /** Adds the keys in the lines of a segment. Resolves to the number of keys. */
  private async addSegment(segment: SegmentToRead, progress: ReadingProgress): Promise<number> {
    const { disk, root, parse } = this.options;
    const { day, path, length, isOpen } = segment;
    const { setAsides } = this;
    // The file is undefined if the segment was removed after its directory was read.
    const file = await unlessAbsent(disk.open(join(root, path)));
    if (!file) {
      this.assertUsable();
      return 0;
    }
    try {
      let count = 0;
      let rows: DayEntry[] = [];
      let turnBegan = performance.now();
      for await (const line of readLines(file, 0, length)) {
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
      await this.onDay(day, (database) => {
        // If a database was set aside meanwhile, the new one lacks the keys added before, so it must not list the
        // segment.
        if (setAsides === this.setAsides) put(database, [segmentEntry(isOpen ? { path, length: OPEN } : segment)]);
      });
      return count + rows.length;
    } finally {
      await file.close();
    }
  }

  /** The segments from a given day on, sorted by day. Skips anything but regular files, with a warning. */
  private async segmentsFrom(from: string): Promise<SegmentToRead[]> {
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
          if (length === undefined) this.options.logger.warn(`${path} is not a regular file; skipping it.`);
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

  private pathOf(day: string): string {
    return join(this.directory, `${day}.db`);
  }

  private async put(day: string, entries: readonly DayEntry[]): Promise<void> {
    for (let at = 0; at < entries.length; at += ROWS_AT_ONCE) {
      if (at > 0) await turnOfOthers();
      await this.onDay(day, (database) => {
        // An incomplete database must not list segments: it would claim keys that it lacks.
        const isComplete = this.isComplete(day);
        put(database, entries.slice(at, at + ROWS_AT_ONCE).filter(({ value }) => isComplete || typeof value !== 'number'));
      });
      await this.onDay(day, (database) => database.checkpoint());
    }
  }

  /** Works on the database of a day. If the database is damaged, sets it aside and repeats the work on a new one. */
  private async onDay<T>(day: string, work: (database: SelfCheckingDatabase) => T | Promise<T>): Promise<T> {
    const database = await this.open(day);
    try {
      return await work(database);
    } catch (error) {
      if (!(error instanceof DamagedDatabaseError)) throw error;
      await this.setAside(day, error);
      return work(await this.open(day));
    }
  }

  private async open(day: string): Promise<SelfCheckingDatabase> {
    const known = this.days.get(day);
    if (known) return known;
    const { disk } = this.options;
    const path = this.pathOf(day);
    const isThere = (await this.makeDirectory()).includes(basename(path));
    if (!isThere && !this.rebuilt.has(day)) this.absent.add(day);
    let database: SelfCheckingDatabase;
    try {
      database = disk.openDatabase(path);
    } catch (error) {
      if (!(error instanceof DamagedDatabaseError)) throw error;
      await this.assertNotOverloaded(path);
      await this.setAside(day, error);
      database = disk.openDatabase(path);
    }
    this.days.set(day, database);
    return database;
  }

  /**
   * Throws if the process lacks file descriptors or memory. SQLite reports this in the same way as a damaged file that
   * can't be opened, but the file must not be set aside.
   */
  private async assertNotOverloaded(path: string): Promise<void> {
    const { disk } = this.options;
    if ((await disk.plainFileSize(path)) === undefined) return;
    try {
      await (await disk.open(path)).close();
    } catch (error) {
      if (hasCode(error, 'EMFILE', 'ENFILE', 'ENOMEM')) throw error;
    }
  }

  private async setAside(day: string, reason: DamagedDatabaseError): Promise<void> {
    this.setAsides += 1;
    this.completeFrom = undefined;
    this.damaged.delete(day);
    this.rebuilt.add(day);
    this.days.get(day)?.close();
    this.days.delete(day);
    const name = `${day}.db`;
    const names = await this.makeDirectory();
    const aside = freeName(name, names);
    try {
      // SQLite would apply a log that was left behind to the new database.
      for (const suffix of DATABASE_SUFFIXES) {
        if (names.includes(name + suffix)) await unlessAbsent(this.moveAside(name + suffix, aside && aside + suffix));
      }
    } catch (error) {
      if (!hasCode(error, 'EACCES', 'EPERM')) throw error;
      await this.setDirectoryAside(error);
    }
    const fate = aside === undefined ? 'removed, as there are damaged ones already' : `renamed to ${aside}`;
    this.options.logger.warn(`${reason.message}. It was ${fate}; its keys are read again from the lines of ${day}.`);
  }

  private moveAside(name: string, aside: string | undefined): Promise<void> {
    const { disk } = this.options;
    const path = join(this.directory, name);
    return aside === undefined ? disk.remove(path) : disk.rename(path, join(this.directory, aside));
  }

  /**
   * The names in the directory of the databases. Creates the directory if it is missing, and sets aside anything
   * unusable in its place.
   */
  private async makeDirectory(): Promise<string[]> {
    const { disk, directories } = this.options;
    const list = () => directories.within(this.directory, () => disk.readDirectory(this.directory));
    let names: string[];
    try {
      names = await list();
    } catch (error) {
      if (!isObstacle(error)) throw error;
      await this.setDirectoryAside(error);
      names = await list();
    }
    this.assertUsable();
    return names;
  }

  private async setDirectoryAside(reason: unknown): Promise<void> {
    const { disk, root, logger } = this.options;
    const aside = freeName('idempotency', await disk.readDirectory(root));
    this.assertUsable();
    if (aside === undefined) throw reason;
    await disk.rename(this.directory, join(root, aside));
    this.setAsides += 1;
    logger.warn(`${this.directory} can't be used (${(reason as Error).message}). It was renamed to ${aside}, which may be removed.`);
  }

  private async removeExpired(from: string): Promise<void> {
    for (const [day, database] of this.days) {
      if (day >= from) continue;
      database.close();
      this.days.delete(day);
    }
    const first = utcDate(new Date(Date.parse(from) - DAYS_KEPT * DAY_MS));
    for (const name of await this.makeDirectory()) {
      if (/^\d{4}-\d\d-\d\d\.db/.test(name) && name < first) await this.options.disk.remove(join(this.directory, name));
    }
  }
}

/** Logs the progress of reading segments, at most every two seconds. */
class ReadingProgress {
  private readonly began = performance.now();
  private logged = this.began;
  private readonly total: number;
  private done = 0;

  constructor(
    private readonly logger: StorageLogger,
    segments: readonly ListedSegment[],
  ) {
    this.total = segments.reduce((total, { length }) => total + length, 0);
  }

  add(bytes: number): void {
    this.done += bytes;
    const now = performance.now();
    if (now - this.logged < PROGRESS_EVERY_MS) return;
    this.logged = now;
    this.logger.log?.(`Reading idempotency keys from the index lines: ${mib(this.done)} of ${mib(this.total)} MiB.`);
  }

  end(): void {
    if (this.logged === this.began) return;
    const seconds = Math.round((performance.now() - this.began) / 1000);
    this.logger.log?.(`Reading idempotency keys from the index lines: done, ${mib(this.total)} MiB in ${seconds} s.`);
  }
}

const mib = (bytes: number): number => Math.round(bytes / MIB);

/** The first UTC day whose lines may contain a key that is still kept. */
const firstKeptDay = (): string => utcDate(new Date(Date.now() - IDEMPOTENCY_PERIOD_MS));

/** Whether an error means that the directory is unusable, but a new one in its place would not be. */
const isObstacle = (error: unknown): boolean =>
  error instanceof DataDirectoryError || hasCode(error, 'ENOTDIR', 'ENOENT', 'ELOOP', 'EACCES', 'EPERM');

/** A free name for something that is set aside; undefined if all five names are taken. */
function freeName(name: string, taken: readonly string[]): string | undefined {
  const names = Array.from({ length: MOST_SET_ASIDE }, (_, index) => `${name}.damaged-${index + 1}`);
  return names.find((candidate) => !taken.some((other) => other.startsWith(candidate)));
}

const uploadName = (scope: string): string => `upload\n${scope}`;
const segmentName = (path: string): string => `segment\n${path}`;
/** Name of the entry with the number of segments that a database lists. */
const SEGMENT_COUNT = 'segments';

const uploadEntry = (day: string, { scope, request, receivedAt, uploadId, content }: KeyedUpload): DayEntry => ({
  day,
  name: uploadName(scope),
  value: { request, receivedAt: receivedAt.getTime(), uploadId, size: content?.size ?? null, sha256: content?.sha256 ?? null },
});

const segmentEntry = ({ path, length }: ListedSegment): DayEntry => ({
  day: /\/date=([^/]*)\//.exec(path)?.[1] ?? '',
  name: segmentName(path),
  value: length,
});

function put(database: SelfCheckingDatabase, entries: readonly DayEntry[]): void {
  if (entries.length === 0) return;
  const values = entries.map(({ name, value }) => [name, value] as const);
  const newSegments = entries.filter(({ name, value }) => typeof value === 'number' && (database.get(name) ?? undefined) === undefined).length;
  const count = Number(database.get(SEGMENT_COUNT) ?? 0) + newSegments;
  database.putAll(newSegments > 0 ? [...values, [SEGMENT_COUNT, count]] : values, replaces);
}

/**
 * Whether a value replaces the present value with the same name in a database. Another length of a segment does. Of two
 * uploads under one key, the earlier one is kept, unless its key had expired when the later one was complete.
 */
function replaces(value: unknown, present: unknown): boolean {
  if (present === null) return true;
  if (typeof value === 'number') return value !== present;
  const { receivedAt } = value as Row;
  const first = (present as Row).receivedAt;
  return receivedAt < first || !isKeptUnderKey(new Date(first), receivedAt);
}

const receiptOf = ({ uploadId, size, sha256 }: Row): UploadReceipt => ({
  uploadId,
  content: size === null || sha256 === null ? null : { size, sha256 },
  replayed: true,
});
