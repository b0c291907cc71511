import { join } from 'node:path';
import { v7 as uuidV7 } from 'uuid';
import { withTimeLimit } from '../../../../common/time-limit.js';
import { FileRemovedError } from './disk-error.js';
import type { StorageLogger } from '../../../application/storage-logger.js';
import { encodeRecord, Journal, type JournalRecord, type JournalSite } from './journal.js';

/** Suffix of the names of journals in `pending/`. */
export const JOURNAL_EXTENSION = '.journal';
/**
 * The maximum number of journals in use. One journal accepts records while the files of the other are synced. While the
 * files of both are synced, new records wait, but for at most MAX_WAIT_MS.
 */
const MAX_JOURNALS = 2;
/**
 * How long a journal accepts records in one use, at most, in milliseconds. Then the files whose bytes it contains are
 * synced, and it can be used again.
 */
const MAX_USE_MS = 10_000;
/**
 * After creating a journal failed, how long to wait before creating another, in milliseconds. The usual cause of a
 * failure is a nearly full disk.
 */
const UNAVAILABLE_MS = 10_000;
/**
 * How long a new record waits at most while the files of all journals are being synced, in milliseconds. After that,
 * `add` rejects, and the caller writes the file to `staging/` instead.
 */
const MAX_WAIT_MS = 1_000;

/** The error when no journal can take a record. The record is then in no journal. */
export class JournalUnavailableError extends Error {
  constructor(cause: unknown) {
    super('No journal is available.', { cause });
    this.name = new.target.name;
  }
}

/**
 * A record (the bytes of one small file) that is durable in a journal. The journal is kept until all of its records are
 * released. After a crash, recovery can thus restore the record's file, or remove the file if it has no index line.
 */
export interface HeldRecord {
  /**
   * Releases the record. Call `release` when the record's file and its index line are both in place, when neither is,
   * or when a marker makes recovery find out.
   */
  release(): void;
  /**
   * Releases the record when it is unknown whether its file and its index line are in place. The journal is then kept
   * until it is replayed: before the next removal of uploads, or by recovery at the next boot.
   */
  leave(): void;
}

interface WaitingRecord {
  readonly bytes: Buffer;
  readonly path: string;
  readonly resolve: (held: HeldRecord) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * One use of a journal: from when the journal accepts records until the files of these records are synced. A journal
 * may be used many times.
 */
interface Use extends EndedUse {
  readonly timer: NodeJS.Timeout;
}

/** A use whose journal accepts no more records. */
interface EndedUse {
  readonly journal: Journal;
  /** Absolute paths of the files whose bytes are in the journal. They are synced before the journal is used again. */
  readonly paths: string[];
  /** `Disk.lossCount` before any of these files was written. */
  readonly losses: number;
}

/**
 * Makes small files durable with few flushes. The bytes of a file are first written to a journal. Files that arrive
 * during a flush of the journal share the next flush, as far as they fit into one journal. The files themselves are
 * synced later, all files of a journal at once.
 */
export class ContentJournals {
  private readonly waiting: WaitingRecord[] = [];
  private running: Promise<void> | undefined;
  private current: Use | undefined;
  private readonly retiring = new Set<Promise<void>>();
  private readonly idle: Journal[] = [];
  /**
   * Uses of journals that could not be ended: the files could not be synced, the journal could not be emptied, removed
   * or closed, or the store was away.
   */
  private readonly unsettled: EndedUse[] = [];
  /** How many calls of `settleAll` in progress want journals to be removed instead of kept for their next use. */
  private purges = 0;
  /**
   * Absolute paths of the closed journals that were left in `pending/` for recovery (`replayJournal`). Before a new
   * removal of uploads begins, all of them must be replayed.
   */
  readonly left = new Set<string>();
  private unavailable: { readonly error: JournalUnavailableError; readonly since: number } | undefined;

  constructor(
    private readonly site: JournalSite,
    private readonly logger: StorageLogger,
    /** Absolute path of the directory in which journals are created (`pending/`). */
    private readonly directory: string,
    private readonly journalBytes: number,
  ) {}

  /**
   * Adds a file. Resolves when the file's bytes are durable in a journal. If `add` rejects, a journal may still contain
   * the bytes. Recovery usually creates no file from them, because it finds no index line of the file.
   *
   * @param path the final path of the file, as an absolute path.
   * @throws JournalUnavailableError; FileRemovedError; StoreAwayError; an error of the file system.
   */
  add(record: JournalRecord, path: string): Promise<HeldRecord> {
    return new Promise((resolve, reject) => {
      this.waiting.push({ bytes: encodeRecord(record), path, resolve, reject });
      this.running ??= this.run();
    });
  }

  /**
   * Waits until all records whose `add` has resolved so far are released, and syncs their files. Afterwards, recovery
   * needs no journal for these files, except the closed journals in `left`.
   *
   * @param purge whether to also remove the journals, which otherwise keep the bytes of these files until new records
   *   overwrite them.
   * @throws Error if a journal could not be emptied, removed or closed, or the store is away. If files could not be
   *   synced, their journal is usually only closed and added to `left`.
   */
  async settleAll(purge: boolean): Promise<void> {
    this.purges += Number(purge);
    try {
      this.retire();
      await Promise.all(this.retiring);
      const ended: EndedUse[] = this.unsettled.splice(0);
      if (purge) for (const journal of this.idle.splice(0)) ended.push({ journal, paths: [], losses: this.site.disk.lossCount() });
      await Promise.all(ended.map((use) => this.settle(use)));
    } finally {
      this.purges -= Number(purge);
    }
    if (this.unsettled.length > 0) throw new Error('A journal could not be settled; retrying before the next removal, and at the next boot.');
  }

  /**
   * Syncs the files of all journals and removes the journals. Keeps those for which that fails, those that were left,
   * and all while the store is away, for the next boot. Never rejects. Call `close` only when no record is waiting or
   * held.
   */
  async close(): Promise<void> {
    await this.running;
    this.retire();
    await Promise.all(this.retiring);
    await Promise.all(this.unsettled.splice(0).map((use) => this.settle(use)));
    const { presence } = this.site;
    for (const { journal } of this.unsettled) await journal.close().catch(() => undefined);
    for (const journal of this.idle.splice(0)) {
      // While the store is away (missing or replaced), the journal's path may name a journal of another store.
      if (presence.isAway) await journal.close().catch(() => undefined);
      else await journal.remove().catch((error: unknown) => {
        this.logger.warn(`Removing ${journal.path} failed; retrying at the next boot.`, error);
      });
    }
  }

  private async run(): Promise<void> {
    while (this.waiting.length > 0) await this.flush();
    this.running = undefined;
  }

  private async flush(): Promise<void> {
    let use: Use;
    try {
      use = await this.takeUse();
    } catch (error) {
      for (const { reject } of this.waiting.splice(0)) reject(error);
      return;
    }
    const batch = this.takeBatch(use.journal);
    const records = batch.map(({ bytes }) => bytes);
    try {
      use = await this.append(use, records);
    } catch (error) {
      for (const { reject } of batch) reject(error);
      return;
    }
    const { journal, paths } = use;
    for (const { path, resolve } of batch) {
      paths.push(path);
      resolve(journal);
    }
  }

  /**
   * Appends records to the journal of a use. Resolves to the use whose journal now contains the records durably:
   * another journal's use, if someone has removed the file of the given journal.
   */
  private async append(use: Use, records: readonly Buffer[], removed = 0): Promise<Use> {
    try {
      await use.journal.append(records);
      return use;
    } catch (error) {
      this.retire();
      // Someone has probably removed the files of all journals. After MAX_JOURNALS failed attempts no old journal is
      // left, so the last attempt uses a new one.
      if (!(error instanceof FileRemovedError) || removed === MAX_JOURNALS) throw error;
    }
    return this.append(await this.takeUse(), records, removed + 1);
  }

  /**
   * Returns the current use (see `Use`) if its journal has room for the first waiting record. Otherwise ends that use,
   * and begins a use of another journal. If both journals are being synced, waits for one of them.
   *
   * @throws JournalUnavailableError if syncing takes longer than MAX_WAIT_MS or has failed for all journals, or if
   * no journal can be created; StoreAwayError.
   */
  private async takeUse(): Promise<Use> {
    const { current } = this;
    if (current?.journal.accepts(this.waiting[0]?.bytes.length ?? 0)) return current;
    this.retire();
    let journal = this.takeIdle();
    for (; !journal && this.retiring.size >= MAX_JOURNALS; journal = this.takeIdle()) await this.untilOneIsSettled();
    journal ??= await this.makeJournal();
    const timer = setTimeout(() => {
      this.retire();
    }, MAX_USE_MS).unref();
    return (this.current = { journal, paths: [], losses: this.site.disk.lossCount(), timer });
  }

  /**
   * Takes an idle journal for its next use; undefined if there is none. Takes none while journals are being purged: the
   * new records would overwrite only the beginning of the bytes that are to be removed.
   */
  private takeIdle(): Journal | undefined {
    return this.purges === 0 ? this.idle.pop() : undefined;
  }

  private async untilOneIsSettled(): Promise<void> {
    const tooLong = () => new JournalUnavailableError(`The files of all journals have been syncing for ${MAX_WAIT_MS} ms.`);
    await withTimeLimit(MAX_WAIT_MS, () => Promise.race(this.retiring), tooLong);
  }

  private async makeJournal(): Promise<Journal> {
    if (this.unsettled.length >= MAX_JOURNALS) throw new JournalUnavailableError('The files of journals could not be synced.');
    if (this.unavailable && performance.now() - this.unavailable.since < UNAVAILABLE_MS) throw this.unavailable.error;
    this.site.presence.assertHere();
    const path = join(this.directory, `${uuidV7()}${JOURNAL_EXTENSION}`);
    try {
      return await Journal.make(this.site, path, this.journalBytes);
    } catch (cause) {
      const error = new JournalUnavailableError(cause);
      this.unavailable = { error, since: performance.now() };
      this.logger.warn(`Creating ${path} failed; for ${UNAVAILABLE_MS / 1000} s, small files are stored like large ones.`, cause);
      throw error;
    }
  }

  private takeBatch({ room }: Journal): WaitingRecord[] {
    let bytes = 0;
    let count = 0;
    for (const record of this.waiting) {
      bytes += record.bytes.length;
      if (count > 0 && bytes > room) break;
      count += 1;
    }
    return this.waiting.splice(0, count);
  }

  /** Ends the current use: its journal gets no more records, and the files of its records are synced (see `settle`). */
  private retire(): void {
    if (!this.current) return;
    clearTimeout(this.current.timer);
    const retired = this.settle(this.current).finally(() => this.retiring.delete(retired));
    this.retiring.add(retired);
    this.current = undefined;
  }

  /**
   * Syncs the files whose bytes are in a journal. If that fails, the journal is left for recovery, which writes the
   * files again. The sync isn't repeated, because a second one could succeed although the disk has lost data. The
   * journal is also left if another sync has reported lost writes meanwhile, which may be of these files.
   */
  private async syncFiles({ journal, paths, losses }: EndedUse): Promise<void> {
    const { disk } = this.site;
    try {
      await disk.syncFiles(paths);
    } catch (error) {
      journal.isLeft = true;
      throw error;
    }
    if (disk.lossCount() === losses) return;
    journal.isLeft = true;
    this.logger.warn(`${journal.path} is kept for the next boot: its file system could not write everything to the disk, perhaps files of this journal.`);
  }

  /**
   * Waits until no record of a journal is held, then syncs the files of its records, and empties or removes the
   * journal. A journal that is left for recovery is only closed. Never rejects: after a failure, adds the use to
   * `unsettled`.
   */
  private async settle(use: EndedUse): Promise<void> {
    const { journal } = use;
    await journal.released();
    try {
      if (!journal.isLeft) await this.syncFiles(use);
      // If the store went away, the journal is kept, and recovery restores the files from it when the store is back.
      this.site.presence.assertHere();
      if (journal.isLeft) {
        await journal.close();
        this.left.add(journal.path);
      } else if (journal.isSound && this.purges === 0) {
        await journal.clear();
        this.idle.push(journal);
      } else {
        await journal.remove();
      }
    } catch (error) {
      this.unsettled.push(use);
      if (!this.site.presence.isAway) this.logger.warn(`Ending the use of ${journal.path} failed; retrying, at the latest at the next boot.`, error);
    }
  }
}
