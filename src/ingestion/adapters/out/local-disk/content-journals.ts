import { join } from 'node:path';
import { v7 as uuidV7 } from 'uuid';
import { withTimeLimit } from '../../../../common/time-limit.js';
import { FileRemovedError } from './disk-error.js';
import type { StorageLogger } from '../../../application/storage-logger.js';
import { Journal, type JournalSite } from './journal.js';
import { encodeRecord, type JournalRecord } from './journal-records.js';

/** Names in `pending/` that end so are journals. */
export const JOURNAL_EXTENSION = '.journal';
/** While the files of one are synced, the other takes records; who finds both busy waits. */
const MOST_JOURNALS = 2;
/** For so many milliseconds a journal takes records, be they few. */
const LONGEST_USE_MS = 10_000;
/** For so many milliseconds none is tried to be made after one couldn't be: the disk is nearly full. */
const UNAVAILABLE_MS = 10_000;
/** For so many milliseconds a record waits for a journal while the files of all are synced. */
const LONGEST_WAIT_MS = 1_000;

/** There is no journal to be had, and nothing was done. */
export class JournalUnavailableError extends Error {
  constructor(cause: unknown) {
    super('There is no journal.', { cause });
    this.name = new.target.name;
  }
}

/** A record that is durable. The next boot looks after its file while it is held. */
export interface HeldRecord {
  /** The file is there with its line, or neither is. */
  release(): void;
  /** Nobody knows what is there: leaves it to the next boot. */
  leave(): void;
}

interface WaitingRecord {
  readonly bytes: Buffer;
  readonly path: string;
  readonly resolve: (held: HeldRecord) => void;
  readonly reject: (error: unknown) => void;
}

/** A journal that takes records. */
interface Use {
  readonly journal: Journal;
  /** Absolute paths of the files that are to be synced before it is used again. */
  readonly paths: string[];
  readonly timer: NodeJS.Timeout;
}

/**
 * Makes small files durable with few flushes: those that wait share the flush of one journal, which has their bytes.
 * The files in their places are synced later, all of a journal at once.
 */
export class ContentJournals {
  private readonly waiting: WaitingRecord[] = [];
  private running: Promise<void> | undefined;
  private current: Use | undefined;
  private readonly retiring = new Set<Promise<void>>();
  private readonly idle: Journal[] = [];
  /** Those whose files couldn't be synced. */
  private readonly unsettled: Use[] = [];
  private unavailable: { readonly error: JournalUnavailableError; readonly since: number } | undefined;

  constructor(
    private readonly site: JournalSite,
    private readonly logger: StorageLogger,
    /** Absolute. */
    private readonly directory: string,
    private readonly journalBytes: number,
  ) {}

  /**
   * Resolves when the bytes of a file are durable; when it rejects, nothing is left of them after the next boot.
   *
   * @param path absolute; where the file is to be.
   * @throws JournalUnavailableError; what the file system throws.
   */
  add(record: JournalRecord, path: string): Promise<HeldRecord> {
    return new Promise((resolve, reject) => {
      this.waiting.push({ bytes: encodeRecord(record), path, resolve, reject });
      this.running ??= this.run();
    });
  }

  /** Syncs the files and removes the journals. No record may be waiting or held. */
  async close(): Promise<void> {
    await this.running;
    this.retire();
    await Promise.all(this.retiring);
    await Promise.all(this.unsettled.splice(0).map((use) => this.settle(use)));
    const { presence } = this.site;
    for (const { journal } of this.unsettled) await journal.close().catch(() => undefined);
    for (const journal of this.idle.splice(0)) {
      // What has its name in a store that is away may be another journal.
      if (presence.isAway) await journal.close().catch(() => undefined);
      else await journal.remove().catch((error: unknown) => {
        this.logger.warn(`Removing ${journal.path} failed; the next boot does it.`, error);
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
      resolve({
        release: () => {
          journal.release();
        },
        leave: () => {
          journal.isLeft = true;
          journal.release();
        },
      });
    }
  }

  /** Resolves to the journal that has the records durably: another one where somebody removed it. */
  private async append(use: Use, records: readonly Buffer[], removed = 0): Promise<Use> {
    try {
      await use.journal.append(records);
      return use;
    } catch (error) {
      this.retire();
      // The others were removed together with it, probably; behind them a new one is made.
      if (!(error instanceof FileRemovedError) || removed === MOST_JOURNALS) throw error;
    }
    return this.append(await this.takeUse(), records, removed + 1);
  }

  /** The journal for the first record that waits; throws JournalUnavailableError. */
  private async takeUse(): Promise<Use> {
    const { current } = this;
    const first = this.waiting[0]?.bytes.length ?? 0;
    if (current && (current.journal.isEmpty || first <= current.journal.room)) return current;
    this.retire();
    while (this.idle.length === 0 && this.retiring.size >= MOST_JOURNALS) await this.untilOneIsSettled();
    const journal = this.idle.pop() ?? (await this.makeJournal());
    const timer = setTimeout(() => {
      this.retire();
    }, LONGEST_USE_MS).unref();
    return (this.current = { journal, paths: [], timer });
  }

  private async untilOneIsSettled(): Promise<void> {
    const tooLong = () => new JournalUnavailableError(`The files of all journals are being synced for ${LONGEST_WAIT_MS} ms.`);
    await withTimeLimit(LONGEST_WAIT_MS, Promise.race(this.retiring), tooLong);
  }

  private async makeJournal(): Promise<Journal> {
    if (this.unsettled.length >= MOST_JOURNALS) throw new JournalUnavailableError('The files of journals could not be synced.');
    if (this.unavailable && performance.now() - this.unavailable.since < UNAVAILABLE_MS) throw this.unavailable.error;
    this.site.presence.assertHere();
    const path = join(this.directory, `${uuidV7()}${JOURNAL_EXTENSION}`);
    try {
      return await Journal.make(this.site, path, this.journalBytes);
    } catch (cause) {
      const error = new JournalUnavailableError(cause);
      this.unavailable = { error, since: performance.now() };
      this.logger.warn(`Making ${path} failed; for ${UNAVAILABLE_MS / 1000} s small files are stored as large ones are.`, cause);
      throw error;
    }
  }

  private takeBatch({ room }: Journal): WaitingRecord[] {
    let bytes = 0;
    const end = this.waiting.findIndex((record, index) => {
      bytes += record.bytes.length;
      return index > 0 && bytes > room;
    });
    return this.waiting.splice(0, end < 0 ? this.waiting.length : end);
  }

  /** Lets the current journal take no more. */
  private retire(): void {
    if (!this.current) return;
    clearTimeout(this.current.timer);
    const retired = this.settle(this.current).finally(() => this.retiring.delete(retired));
    this.retiring.add(retired);
    this.current = undefined;
  }

  /** Syncs a journal's files when none of them is under way any more, so that it can be used again, or go. */
  private async settle(use: Use): Promise<void> {
    const { journal, paths } = use;
    await journal.released();
    try {
      await this.site.disk.syncFiles(paths);
      // Otherwise recovery makes sure of them, by the journal's records.
      this.site.presence.assertHere();
      if (journal.isLeft) {
        await journal.close();
      } else if (journal.isSound) {
        await journal.clear();
        this.idle.push(journal);
      } else {
        await journal.remove();
      }
    } catch (error) {
      this.unsettled.push(use);
      if (!this.site.presence.isAway) this.logger.warn(`Settling ${journal.path} failed; the next boot does it, unless it comes off before.`, error);
    }
  }
}
