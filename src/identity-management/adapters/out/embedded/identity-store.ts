import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { Logger } from '@nestjs/common';
import { SharedProbe } from '../../../../common/shared-probe.js';
import { type DataDirectoryLock, isLocked, lockDataDirectory } from '../../../../common/data-directory/data-directory-lock.js';
import { fileIdentity, identityUnlessUnreadable, placeCheck } from '../../../../common/data-directory/file-identity.js';
import { noLongerAwaited } from '../../../application/ports/awaited.js';
import { ProviderError, ProviderUnavailable } from '../../../domain/errors.js';
import { checkpoint, type IdentityDatabase, idInFile, idOf, immediately, isIntact, openIdentityDatabase, toProviderFailure } from './identity-database.js';
import { privateDirectory } from './private-files.js';

interface Opened {
  readonly database: IdentityDatabase;
  /** Whether the open database file is still the file at the database's path. */
  readonly isFileInPlace: () => boolean;
  /**
   * Whether the open write-ahead log is still the file at the log's path. Commits are written to the log before they
   * reach the database's file.
   */
  readonly isLogInPlace: () => boolean;
}

/**
 * The identity database, while its files are at their paths. SQLite goes on using files that were removed, moved or
 * hidden by a volume mounted over them, and commits to such files would be lost. So before and after each transaction,
 * the open files are compared with the files at the paths, by device and inode. While they differ, every call rejects.
 * When the same database is back at its path, it is reopened automatically.
 */
export class IdentityStore {
  private readonly logger = new Logger('IdentityDatabase');
  private readonly id: number;
  /** Tries to reopen the database. All callers share one attempt, and there is at most one attempt per second. */
  private readonly returning = new SharedProbe(() => this.comeBack());
  private isClosed = false;
  private lastWarning = '';

  private constructor(
    private readonly dataDirectory: string,
    private readonly path: string,
    private opened: Opened,
    /** The lock of the data directory. Undefined if the database was opened with `shared`, which takes no lock. */
    private lock: DataDirectoryLock | undefined,
  ) {
    this.id = idOf(opened.database);
  }

  /**
   * Opens the identity database in the data directory.
   *
   * @param shared whether to open the database without taking the lock of the data directory. A second process can then
   * use the database while the service, which holds the lock, is running. Nothing is created while the service is
   * running.
   * @throws DataDirectoryInUseError when another process holds the lock and `shared` is false; DataDirectoryError;
   * ProviderUnavailable when the database is missing while the service runs; errors of the file system and SQLite.
   */
  static async open(dataDirectory: string, shared: boolean): Promise<IdentityStore> {
    const path = join(dataDirectory, 'identity', 'identity.db');
    if (shared && isLocked(dataDirectory, 'identity')) {
      if (!fileIdentity(path)) throw new ProviderUnavailable(`${path} is gone while the service runs: put it back; a restart begins without users, roles and keys`);
      return new IdentityStore(dataDirectory, path, await open(path, false), undefined);
    }
    privateDirectory(dataDirectory);
    const lock = shared ? undefined : await lockDataDirectory(dataDirectory, 'identity');
    try {
      return new IdentityStore(dataDirectory, path, await open(path, true), lock);
    } catch (error) {
      lock?.release();
      throw error;
    }
  }

  private get database(): IdentityDatabase {
    return this.opened.database;
  }

  /**
   * Resolves if the open database file is the file at the database's path. Otherwise first tries to reopen the
   * database.
   *
   * @throws ProviderUnavailable if the two files still differ; ProviderError when the store is closed.
   */
  async available(): Promise<void> {
    if (this.isClosed) throw new ProviderError('The identity database is closed.');
    if (this.isHere()) return;
    await this.returning.check().catch((cause: unknown) => {
      throw new ProviderUnavailable('The identity database is away.', { cause });
    });
    this.assertHere();
  }

  private assertHere(): void {
    if (this.isClosed) throw new ProviderError('The identity database is closed.');
    if (!this.isHere()) throw new ProviderUnavailable('The identity database is away.');
  }

  /**
   * Runs synchronous work in one transaction of the database.
   *
   * @param signal ends the wait for the database's write lock when it aborts.
   * @throws ProviderUnavailable; ProviderError; domain errors of the work.
   */
  async write<Result>(work: (database: IdentityDatabase) => Result, signal?: AbortSignal): Promise<Result> {
    try {
      if (signal?.aborted) throw noLongerAwaited(signal);
      await this.available();
      const { database } = this.opened;
      const result = await immediately(database, () => {
        this.assertHere();
        return work(database);
      }, signal);
      this.assertHere();
      return result;
    } catch (error) {
      throw toProviderFailure(error);
    }
  }

  /**
   * Runs synchronous work that only reads from the database.
   *
   * @throws as `write`.
   */
  async read<Result>(work: (database: IdentityDatabase) => Result): Promise<Result> {
    await this.available();
    return this.readNow(work);
  }

  /**
   * Runs synchronous work like `read`, without trying to reopen the database first.
   *
   * @throws as `write`.
   */
  readNow<Result>(work: (database: IdentityDatabase) => Result): Result {
    try {
      this.assertHere();
      return work(this.opened.database);
    } catch (error) {
      throw toProviderFailure(error);
    }
  }

  /** Closes the database and releases the lock of the data directory. Idempotent. */
  close(): void {
    this.isClosed = true;
    if (this.database.open) this.database.close();
    this.lock?.release();
  }

  private isHere(): boolean {
    const { database, isFileInPlace, isLogInPlace } = this.opened;
    return database.open && this.lock?.isHeld() !== false && isFileInPlace() && isLogInPlace();
  }

  private async comeBack(): Promise<void> {
    if (this.isHere() || this.isClosed) return;
    try {
      await this.takeLock();
      await this.openAgain();
      if (this.lastWarning !== '') this.warn(`${this.path} is back.`);
      this.lastWarning = '';
    } catch (error) {
      this.warn(`The identity provider is unavailable: ${(error as Error).message}.`);
      throw error;
    }
  }

  private async takeLock(): Promise<void> {
    if (!this.lock || this.lock.isHeld()) return;
    // The database's file is missing. Perhaps its volume isn't mounted, and the data directory is only the mount point.
    // So nothing, not even a lock file, may be created there.
    if (!identityUnlessUnreadable(this.path)) throw new Error(`${this.path} is gone: put it back or mount its volume; a restart before that begins with an empty one`);
    this.lock.release();
    this.lock = await lockDataDirectory(this.dataDirectory, 'identity', { create: false });
  }

  private async openAgain(): Promise<void> {
    const { isFileInPlace, isLogInPlace } = this.opened;
    if (!identityUnlessUnreadable(this.path)) throw new Error(`${this.path} is gone: put it back or mount its volume; a restart before that begins with an empty one`);
    if (isFileInPlace()) {
      if (this.database.open && isLogInPlace()) return;
      // The database's file is in place, but the write-ahead log is not. The log is still readable through the open
      // file, so its content is moved into the database's file.
      if (this.database.open) checkpoint(this.database);
    } else {
      if (idInFile(this.path) !== this.id) throw new Error(`${this.path} is another database: put the right one back, or restart the service to use this one`);
      // The database's file was replaced, and the database is opened again from its path. The `-shm` file there is an
      // index of a write-ahead log, perhaps of the log that is still open. A wrong index would be dangerous, so the
      // `-shm` file is removed. SQLite creates a new one.
      rmSync(`${this.path}-shm`, { force: true });
    }
    if (this.database.open) this.database.close();
    const opened = await open(this.path, false);
    if (!isIntact(opened.database)) {
      opened.database.close();
      throw new Error(`${this.path} is damaged: put an intact copy back`);
    }
    this.opened = opened;
    if (this.isClosed) this.close();
  }

  /** Logs a warning, unless it repeats the previous one. */
  private warn(message: string): void {
    if (message !== this.lastWarning) this.logger.warn(message);
    this.lastWarning = message;
  }
}

async function open(path: string, create: boolean): Promise<Opened> {
  const database = await openIdentityDatabase(path, { create });
  const log = `${path}-wal`;
  return { database, isFileInPlace: placeCheck(path, fileIdentity(path)), isLogInPlace: placeCheck(log, fileIdentity(log)) };
}
