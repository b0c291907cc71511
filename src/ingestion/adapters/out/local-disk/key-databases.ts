import { basename, join } from 'node:path';
import { v4 as randomUuid } from 'uuid';
import { DataDirectoryError } from '../../../../common/data-directory/data-directory-error.js';
import { DATABASE_SUFFIXES, irregularDatabaseFile } from '../../../../common/data-directory/database-files.js';
import { DAY_MS } from '../../../../common/durations.js';
import { hasCode } from '../../../../common/error-code.js';
import type { StorageLogger } from '../../../application/storage-logger.js';
import { utcDate } from '../../../domain/layout.js';
import { unlessAbsent } from './disk-error.js';
import type { Disk } from './disk.js';
import type { DurableDirectories } from './durable-directories.js';
import { DamagedDatabaseError, type SelfCheckingDatabase } from './self-checking-database.js';

/** How long a database is kept after its last key has expired, in case the clock jumps ahead by a few days and back. */
const DAYS_KEPT = 7;
const MAX_SET_ASIDE = 5;

const ASIDE = '.damaged-';

export interface KeyDatabasesOptions {
  readonly disk: Disk;
  readonly directories: DurableDirectories;
  readonly logger: StorageLogger;
  readonly root: string;
  /** Throws if the store is away or closed: the directory of the databases may then be another store's. */
  readonly assertUsable: () => void;
  /** Called when keys may have been lost. */
  readonly onLoss: () => void;
}

/**
 * The databases of idempotency keys in `idempotency/`, one for each UTC day, created at its first use. A damaged
 * database is set aside: it is renamed or removed, a warning is logged, and an empty database takes its place. A
 * renamed one is removed a week after its keys have expired, or when an upload of its day with a key is removed.
 */
export class KeyDatabases {
  readonly directory: string;
  setAsides = 0;
  private readonly days = new Map<string, SelfCheckingDatabase>();
  private readonly damaged = new Map<string, DamagedDatabaseError>();
  private readonly absent = new Set<string>();
  /** The days whose database was set aside: their new database isn't reported as missing. */
  private readonly rebuilt = new Set<string>();

  constructor(private readonly options: KeyDatabasesOptions) {
    this.directory = join(options.root, 'idempotency');
  }

  openDays(): string[] {
    return [...this.days.keys()].sort();
  }

  /**
   * Runs work on the database of a day; undefined if that database isn't open.
   *
   * @throws DamagedDatabaseError; `setDamagedAside` then sets the database aside.
   */
  read<T>(day: string, work: (database: SelfCheckingDatabase) => T): T | undefined {
    const database = this.days.get(day);
    if (!database) return undefined;
    try {
      return work(database);
    } catch (error) {
      this.options.onLoss();
      if (error instanceof DamagedDatabaseError) this.damaged.set(day, error);
      throw error;
    }
  }

  async setDamagedAside(): Promise<void> {
    for (const [day, error] of this.damaged) await this.setAside(day, error);
  }

  async exists(day: string): Promise<boolean> {
    if (this.days.has(day)) return true;
    const names = await unlessAbsent(this.options.disk.readDirectory(this.directory));
    return names?.includes(basename(this.pathOf(day))) ?? false;
  }

  async daysFrom(from: string): Promise<string[]> {
    const names = await this.makeDirectory();
    return names.flatMap((name) => /^(\d{4}-\d\d-\d\d)\.db$/.exec(name)?.[1] ?? []).filter((day) => day >= from);
  }

  pathOf(day: string): string {
    return join(this.directory, `${day}.db`);
  }

  forgetMissing(): void {
    this.absent.clear();
  }

  /** Whether the database of a day was missing at its first use, and not set aside before. Then forgets the day. */
  wasMissing(day: string): boolean {
    return this.absent.delete(day);
  }

  /**
   * Resolves if names can be created in the directory of the databases, or perhaps in a new directory in its place.
   *
   * @throws DataDirectoryError
   */
  async assertWritable(): Promise<void> {
    const { disk } = this.options;
    await unlessAbsent(disk.assertWritable(this.directory)).catch((error: unknown) => {
      if (isObstacle(error)) return;
      throw new DataDirectoryError(`${this.directory} can't be written (${(error as Error).message}): mount it for writing`, { cause: error });
    });
  }

  async close(): Promise<void> {
    const databases = [...this.days.values()];
    this.days.clear();
    for (const database of databases) await database.close();
  }

  /**
   * Runs work on the database of a day. If the database is damaged, sets it aside and repeats the work on a new one.
   *
   * @throws DamagedDatabaseError if the new one is damaged, too; StoreAwayError; DataDirectoryError; SqliteError; an
   *   error of the file system or of the work.
   */
  async use<T>(day: string, work: (database: SelfCheckingDatabase) => T | Promise<T>): Promise<T> {
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
   * SQLite reports a shortage of file descriptors or memory like damage, but the database must not be set aside for it.
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

  async setAside(day: string, reason: DamagedDatabaseError): Promise<void> {
    this.setAsides += 1;
    this.options.onLoss();
    this.damaged.delete(day);
    this.rebuilt.add(day);
    const database = this.days.get(day);
    this.days.delete(day);
    await database?.close();
    const name = `${day}.db`;
    const names = await this.makeDirectory();
    let aside = freeName(name, names);
    try {
      if (aside === undefined && irregularDatabaseFile(this.pathOf(day)) !== undefined) aside = uniqueName(name);
      // SQLite's log is moved too, because SQLite would apply a log that was left behind to the new database.
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
    this.options.assertUsable();
    return names;
  }

  private async setDirectoryAside(reason: unknown): Promise<void> {
    const { disk, root, logger } = this.options;
    const aside = freeName('idempotency', await disk.readDirectory(root)) ?? uniqueName('idempotency');
    this.options.assertUsable();
    await disk.rename(this.directory, join(root, aside));
    this.setAsides += 1;
    logger.warn(`${this.directory} can't be used (${(reason as Error).message}). It was renamed to ${aside}, which may be removed.`);
  }

  async removeSetAside(day: string): Promise<void> {
    const names = (await unlessAbsent(this.options.disk.readDirectory(this.directory))) ?? [];
    const setAside = names.filter((name) => name.startsWith(`${day}.db${ASIDE}`));
    if (setAside.length === 0) return;
    this.options.assertUsable();
    for (const name of setAside) await this.removeFile(name);
    await this.options.disk.syncDirectory(this.directory);
  }

  /** Closes the databases of days before `from`, whose keys have all expired. Removes their files a week later. */
  async removeExpired(from: string): Promise<void> {
    for (const [day, database] of this.days) {
      if (day >= from) continue;
      this.days.delete(day);
      await database.close();
    }
    const first = utcDate(new Date(Date.parse(from) - DAYS_KEPT * DAY_MS));
    for (const name of await this.makeDirectory()) {
      if (/^\d{4}-\d\d-\d\d\.db/.test(name) && name < first) await this.removeFile(name);
    }
  }

  private async removeFile(name: string): Promise<void> {
    const { disk } = this.options;
    const path = join(this.directory, name);
    if ((await disk.plainFileSize(path)) !== undefined) await disk.remove(path);
  }
}

const isObstacle = (error: unknown): boolean =>
  error instanceof DataDirectoryError || hasCode(error, 'ENOTDIR', 'ENOENT', 'ELOOP', 'EACCES', 'EPERM');

function freeName(name: string, taken: readonly string[]): string | undefined {
  const names = Array.from({ length: MAX_SET_ASIDE }, (_, index) => `${name}${ASIDE}${index + 1}`);
  return names.find((candidate) => !taken.some((other) => other.startsWith(candidate)));
}

const uniqueName = (name: string): string => `${name}${ASIDE}${randomUuid()}`;
