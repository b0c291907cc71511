import { join } from 'node:path';
import { v7 as uuidV7 } from 'uuid';
import { withTimeLimit } from '../../../../common/time-limit.js';
import { FileRemovedError } from './disk-error.js';
import type { StorageLogger } from '../../../application/storage-logger.js';
import { encodeRecord, Journal, type JournalRecord, type JournalSite } from './journal.js';

export const JOURNAL_EXTENSION = '.journal';
/** At most two journals are in use: one accepts records while the files of the other's records are synced. */
const MAX_JOURNALS = 2;
const MAX_USE_MS = 10_000;
/** After a failure to create a journal, no other is created for this long: usually the disk is nearly full. */
const UNAVAILABLE_MS = 10_000;
const MAX_WAIT_MS = 1_000;

/** The error when no journal is available for a record (a small file). */
export class JournalUnavailableError extends Error {
  constructor(cause: unknown) {
    super('No journal is available.', { cause });
    this.name = new.target.name;
  }
}

/**
 * A record (one small file) that is durable in a journal. The journal is kept until all of its records are released.
 */
export interface HeldRecord {
  /**
   * Call when the record's file and its index line are both in place, when neither is, or when a marker in `pending/`
   * lets recovery complete or undo the upload.
   */
  release(): void;
  /** Call instead of `release` if a failed upload could not be undone: keeps the journal until it is replayed. */
  leave(): void;
}

interface WaitingRecord {
  readonly bytes: Buffer;
  readonly path: string;
  readonly resolve: (held: HeldRecord) => void;
  readonly reject: (error: unknown) => void;
}

/** One use of a journal: from taking it for new records until their files are synced. Journals are reused. */
interface Use extends EndedUse {
  readonly timer: NodeJS.Timeout;
}

interface EndedUse {
  readonly journal: Journal;
  readonly paths: string[];
  /** The value of `Disk.lossCount` (how many syncs reported lost writes) before any file of this use was written. */
  readonly losses: number;
}

/**
 * Makes small files durable with few flushes: their bytes are first written to a journal, and the files themselves are
 * synced later, all files of a journal at once.
 */
export class ContentJournals {
  private readonly waiting: WaitingRecord[] = [];
  private running: Promise<void> | undefined;
  private current: Use | undefined;
  private readonly retiring = new Set<Promise<void>>();
  private readonly idle: Journal[] = [];
  private readonly unsettled: EndedUse[] = [];
  private purges = 0;
  /** Absolute paths of closed journals that must be replayed before a new removal of uploads begins. */
  readonly left = new Set<string>();
  private unavailable: { readonly error: JournalUnavailableError; readonly since: number } | undefined;

  constructor(
    private readonly site: JournalSite,
    private readonly logger: StorageLogger,
    private readonly directory: string,
    private readonly journalBytes: number,
  ) {}

  /**
   * Adds a record (a small file). Resolves when it is durable in a journal. If `add` rejects, a journal may contain it.
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
   * Waits until all records whose `add` has resolved so far are released or left, and syncs their files. Afterwards,
   * recovery needs no journal for these files, except the journals in `left`.
   *
   * @param purge whether to also remove the journals, which otherwise keep the bytes of these files for some time.
   * @throws Error if the store is away, a sync failed, or a journal could not be cleared, closed or removed.
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
   * Syncs the files of all journals and removes these journals. Leaves a journal to the next boot if that fails. Never
   * rejects. Call `close` only when no record is waiting or held.
   */
  async close(): Promise<void> {
    await this.running;
    this.retire();
    await Promise.all(this.retiring);
    await Promise.all(this.unsettled.splice(0).map((use) => this.settle(use)));
    const { presence } = this.site;
    for (const { journal } of this.unsettled) await journal.close().catch(() => undefined);
    for (const journal of this.idle.splice(0)) {
      // While the store is away, no journal is removed: the path may be that of another store's journal.
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

  private async append(use: Use, records: readonly Buffer[], removed = 0): Promise<Use> {
    try {
      await use.journal.append(records);
      return use;
    } catch (error) {
      this.retire();
      // If the journal's file was removed, tries others: MAX_JOURNALS retries lead to a new journal.
      if (!(error instanceof FileRemovedError) || removed === MAX_JOURNALS) throw error;
    }
    return this.append(await this.takeUse(), records, removed + 1);
  }

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
   * Returns no idle journal while journals are being purged: in a reused journal, most of the bytes to be removed would
   * stay behind the new records.
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

  private retire(): void {
    if (!this.current) return;
    clearTimeout(this.current.timer);
    const retired = this.settle(this.current).finally(() => this.retiring.delete(retired));
    this.retiring.add(retired);
    this.current = undefined;
  }

  /**
   * Syncs the files of a journal. After a failed sync, the journal is kept to be replayed: a second sync could succeed
   * although data was lost. It is also kept if another sync has meanwhile reported lost writes, perhaps of its files.
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

  private async settle(use: EndedUse): Promise<void> {
    const { journal } = use;
    await journal.released();
    try {
      if (!journal.isLeft) await this.syncFiles(use);
      // If the store went away, the journal is kept, and recovery restores the files from the journal later.
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
