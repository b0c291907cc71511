import { dirname } from 'node:path';
import { FileRemovedError } from './disk-error.js';
import type { Disk, DiskFile } from './disk.js';
import type { DurableDirectories } from './durable-directories.js';
import { newEpoch, stampRecord } from './journal-records.js';
import type { SharedSyncs } from './shared-syncs.js';
import { closeQuietly } from './staged-file.js';
import type { StorePresence } from './store-presence.js';

/** The services of a store that a journal uses. */
export interface JournalSite {
  readonly disk: Disk;
  readonly directories: DurableDirectories;
  readonly presence: StorePresence;
  readonly syncs: SharedSyncs;
}

/**
 * A preallocated journal file. Overwriting preallocated blocks makes fdatasync cheap, because the file's size doesn't
 * change. After a failed append the journal must not be used again.
 */
export class Journal {
  /** Whether the journal accepts records: false after a failed append. */
  isSound = true;
  /** Whether recovery at the next boot must read the journal. */
  isLeft = false;
  private epoch = newEpoch();
  private length = 0;
  private held = 0;
  private onReleased = (): void => undefined;

  private constructor(
    private readonly site: JournalSite,
    private readonly file: DiskFile,
    /** An absolute path. */
    readonly path: string,
    private readonly bytes: number,
  ) {}

  /**
   * Creates a journal. If that fails, removes what it created.
   *
   * @param bytes the preallocated length; a single record may be longer.
   */
  static async make(site: JournalSite, path: string, bytes: number): Promise<Journal> {
    const { disk, directories, syncs } = site;
    const directory = dirname(path);
    const file = await directories.within(directory, () => disk.createSynchronized(path));
    try {
      await file.write([Buffer.alloc(bytes)], 0);
      await syncs.sync(directory);
      return new Journal(site, file, path, bytes);
    } catch (error) {
      await closeQuietly(file);
      // If this fails too, recovery finds a journal without records.
      await disk.remove(path).catch(() => undefined);
      throw error;
    }
  }

  /** Free space of the journal in bytes. */
  get room(): number {
    return this.bytes - this.length;
  }

  get isEmpty(): boolean {
    return this.length === 0;
  }

  /** Resolves when the records are durable. Each of them is then held until it is released. */
  async append(records: readonly Buffer[]): Promise<void> {
    this.held += records.length;
    try {
      for (const record of records) stampRecord(record, this.epoch);
      await this.file.write(records, this.length);
      if (!(await this.file.standsAt(this.path))) throw new FileRemovedError(this.path);
      for (const { length } of records) this.length += length;
    } catch (error) {
      this.isSound = false;
      for (let count = records.length; count > 0; count--) this.release();
      throw error;
    }
  }

  release(): void {
    this.held -= 1;
    if (this.held === 0) this.onReleased();
  }

  /** Resolves when no record is held any more. */
  async released(): Promise<void> {
    if (this.held > 0) await new Promise<void>((resolve) => (this.onReleased = resolve));
  }

  /** Empties the journal for its next use. Recovery no longer finds its records. */
  async clear(): Promise<void> {
    await this.file.write([Buffer.alloc(1)], 0);
    this.epoch = newEpoch();
    this.length = 0;
  }

  async close(): Promise<void> {
    await this.file.close();
  }

  async remove(): Promise<void> {
    await this.close();
    await this.site.disk.remove(this.path);
  }
}
