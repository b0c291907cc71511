import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { Logger } from '@nestjs/common';
import { OneAtATime } from '../../../../common/one-at-a-time.js';
import { SharedProbe } from '../../../../common/shared-probe.js';
import { type DataDirectoryLock, isLocked, lockDataDirectory } from '../../../../common/data-directory/data-directory-lock.js';
import { fileIdentity, identityUnlessUnreadable, placeCheck } from '../../../../common/data-directory/file-identity.js';
import { noLongerAwaited } from '../../../application/ports/awaited.js';
import type { ServiceError } from '../../../../common/service-error.js';
import { ProviderError, ProviderUnavailable } from '../../../domain/errors.js';
import { idInFile, idOf, isIntact, openIdentityDatabase, toProviderFailure } from './identity-database.js';
import { type IdentityDatabase, IdentityWriter, type Statements, unlessBusy } from './identity-writer.js';
import { privateDirectory } from './private-files.js';

interface WriteOptions<Result> {
  /** Ends the wait for earlier transactions and for the write lock. A commit that has begun is awaited. */
  readonly signal?: AbortSignal;
  /** Undoes committed work whose signal has aborted. Default: such work stays. */
  readonly undo?: (statements: Statements, result: Result) => void;
}

interface Opened {
  readonly reader: IdentityDatabase;
  readonly writer: IdentityWriter;
  readonly isFileInPlace: () => boolean;
  readonly isLogInPlace: () => boolean;
}

/**
 * The open identity database. SQLite goes on using files that were removed, moved or hidden by a mounted volume, and
 * commits to them would be lost. So before each read, and at the beginning and after the commit of each write, the open
 * files are compared with those at their paths. While they differ, reads and writes reject. When the same database is
 * back at its path, a later call reopens it.
 *
 * Transactions run one at a time, and commit in a thread, so that the main thread never waits for a sync.
 */
export class IdentityStore {
  private readonly logger = new Logger('IdentityDatabase');
  private readonly id: number;
  /** Uses of the writing connection, and closing or reopening the database, run one at a time in this queue. */
  private readonly queue = new OneAtATime();
  private readonly returning = new SharedProbe(() => this.queue.run(() => this.comeBack()));
  private isClosed = false;
  private lastWarning = '';

  private constructor(
    private readonly dataDirectory: string,
    private readonly path: string,
    private opened: Opened,
    private lock: DataDirectoryLock | undefined,
  ) {
    this.id = idOf(opened.reader);
  }

  /**
   * Opens the identity database in the data directory.
   *
   * @param shared whether to open it without the lock, for a second process beside the running service. While another
   * process holds the lock, a missing database isn't created.
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

  /**
   * Resolves if the open files are those at the database's paths, and the lock, if this store took it, is held.
   * Otherwise waits for an attempt to take the lock and reopen the database. Its result is reused for one second.
   *
   * @throws ProviderUnavailable if the attempt fails or takes more than four seconds; ProviderError when the store is
   * closed.
   */
  async available(): Promise<void> {
    if (this.isClosed) throw closed();
    if (this.isHere()) return;
    await this.returning.check().catch((cause: unknown) => { throw away(cause); });
    this.assertHere();
  }

  private readonly assertHere = (): void => {
    if (this.isClosed || !this.isHere()) throw this.refusal();
  };

  private refusal(): ServiceError {
    return this.isClosed ? closed() : away();
  }

  /**
   * Runs synchronous work in one transaction, and resolves when it is durable. Also rejects if the files are found to
   * be gone only after the commit, although the transaction may have been carried out.
   *
   * @throws ProviderUnavailable; ProviderError; domain errors of the work.
   */
  async write<Result>(work: (statements: Statements) => Result, { signal, undo }: WriteOptions<Result> = {}): Promise<Result> {
    const transaction = async (): Promise<Result> => {
      const { reader, writer } = this.opened;
      // Both connections are closed if reopening the database has failed after closing them.
      if (!reader.open) throw this.refusal();
      const result = await writer.transaction(work, this.assertHere);
      if (!this.isHere()) throw away();
      if (!signal?.aborted || !undo) return result;
      await this.removeAbandoned(String(result), (statements) => { undo(statements, result); });
      throw noLongerAwaited(signal);
    };
    try {
      if (signal?.aborted) throw noLongerAwaited(signal);
      await this.available();
      return await unlessBusy(() => this.queue.run(transaction, signal), signal);
    } catch (error) {
      // The queue throws the signal's reason if the signal aborts during the wait.
      throw signal?.aborted && error === signal.reason ? noLongerAwaited(signal) : toProviderFailure(error);
    }
  }

  /** Undoes abandoned work before the next transaction begins; `close` waits for it. Logs a failure; never rejects. */
  private async removeAbandoned(id: string, work: (statements: Statements) => void): Promise<void> {
    try {
      await unlessBusy(() => {
        if (!this.isHere()) throw away();
        return this.opened.writer.transaction(work);
      });
    } catch (error) {
      this.logger.error({ msg: `${id} was created after its caller had given up, and could not be removed: use it or remove it`, err: error });
    }
  }

  /**
   * Runs synchronous work that only reads.
   *
   * @throws as `write`.
   */
  async read<Result>(work: (statements: Statements) => Result): Promise<Result> {
    try {
      await this.available();
      return work(this.opened.reader);
    } catch (error) {
      throw toProviderFailure(error);
    }
  }

  /**
   * Closes the database and releases the lock, after the transaction in progress. Waiting transactions reject.
   * Idempotent.
   */
  close(): Promise<void> {
    this.isClosed = true;
    return this.queue.run(() => {
      close(this.opened);
      this.lock?.release();
    });
  }

  private isHere(): boolean {
    const { reader, isFileInPlace, isLogInPlace } = this.opened;
    return reader.open && this.lock?.isHeld() !== false && isFileInPlace() && isLogInPlace();
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
    // Without the file, its volume may not be mounted, and the data directory may be only the mount point. Then
    // nothing, not even a lock file, may be created there.
    if (!identityUnlessUnreadable(this.path)) throw new Error(`${this.path} is gone: put it back or mount its volume; a restart before that begins with an empty one`);
    this.lock.release();
    this.lock = await lockDataDirectory(this.dataDirectory, 'identity', { create: false });
  }

  private async openAgain(): Promise<void> {
    const { reader, writer, isFileInPlace, isLogInPlace } = this.opened;
    if (!identityUnlessUnreadable(this.path)) throw new Error(`${this.path} is gone: put it back or mount its volume; a restart before that begins with an empty one`);
    if (isFileInPlace()) {
      if (reader.open && isLogInPlace()) return;
      // The write-ahead log isn't in place, or the connections are closed. An open log is moved into the database's
      // file.
      if (reader.open) await writer.checkpoint();
    } else {
      if (idInFile(this.path) !== this.id) throw new Error(`${this.path} is another database: put the right one back, or restart the service to use this one`);
      // The `-shm` file at the path is an index of a write-ahead log, perhaps of the one that is still open. A wrong
      // index would be dangerous, so it is removed; SQLite creates a new one.
      rmSync(`${this.path}-shm`, { force: true });
    }
    close(this.opened);
    const opened = await open(this.path, false);
    try {
      if (!(await isIntact(opened.reader))) throw new Error(`${this.path} is damaged: put an intact copy back`);
    } catch (error) {
      close(opened);
      throw error;
    }
    this.opened = opened;
  }

  private warn(message: string): void {
    if (message !== this.lastWarning) this.logger.warn(message);
    this.lastWarning = message;
  }
}

const closed = (): ProviderError => new ProviderError('The identity database is closed.');
const away = (cause?: unknown): ProviderUnavailable => new ProviderUnavailable('The identity database is away.', { cause });

async function open(path: string, create: boolean): Promise<Opened> {
  const reader = await openIdentityDatabase(path, { create });
  try {
    const log = `${path}-wal`;
    const checks = { isFileInPlace: placeCheck(path, fileIdentity(path)), isLogInPlace: placeCheck(log, fileIdentity(log)) };
    return { reader, writer: IdentityWriter.open(path), ...checks };
  } catch (error) {
    reader.close();
    throw error;
  }
}

function close({ reader, writer }: Opened): void {
  if (!reader.open) return;
  reader.close();
  writer.close();
}
