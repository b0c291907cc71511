import { basename, join } from 'node:path';
import { v7 as uuidV7 } from 'uuid';
import type { Wakeup } from '../../../../../common/wakeup.js';
import type { StorageLogger } from '../../../../application/storage-logger.js';
import { isLayoutPath, SEGMENTS, UPLOAD_ID } from '../../../../domain/layout-names.js';
import { hasCode } from '../disk-error.js';
import type { Disk } from '../disk.js';
import type { DurableDirectories } from '../durable-directories.js';
import type { SharedSyncs } from '../shared-syncs.js';
import type { StorePresence } from '../store-presence.js';
import { UNFINISHED_EXTENSION, writeWhole } from '../whole-file.js';

/** The directory of the entries, relative to the store's root. */
export const EVENTS = 'events';
/** Suffix of the names of files with removed uploads. */
const REMOVED_EXTENSION = '.removed';
const MOST_NEW = 1_000;

/** Says how far the lines of a file were told. Everything before the offset was. */
export interface EventEntry {
  /** Path of a segment, or of a file with removed uploads, relative to the store's root. */
  readonly lines: string;
  /** In bytes. Usually the beginning of a line; after a crash during a removal it may be within one. */
  readonly offset: number;
}

/** Events that were given out, and may be confirmed. */
export interface EventsInFlight {
  readonly id: string;
  /** The offset behind them, in bytes. Changes when lines before it are removed. */
  end: number;
  /** Whether nothing follows in their file, and never will. */
  readonly isLast: boolean;
}

/** The path of the file with the uploads that a removal list has removed, relative to the store's root. */
export const removedPath = (id: string): string => `${EVENTS}/${id}${REMOVED_EXTENSION}`;

/** Returns data as the entry of an id; undefined if the data isn't a valid entry. */
function asEntry(id: string, data: unknown): EventEntry | undefined {
  if (typeof data !== 'object' || data === null) return undefined;
  const { lines, offset } = data as Partial<Record<string, unknown>>;
  if (typeof lines !== 'string' || !Number.isSafeInteger(offset) || (offset as number) < 0) return undefined;
  const isOwn = lines === removedPath(id) || (isLayoutPath(lines, SEGMENTS) && basename(lines, '.ndjson') === id);
  return isOwn ? { lines, offset: offset as number } : undefined;
}

/**
 * The entries of segments and removals that were not told to their end, in `events/`. The directory exists once telling
 * was begun in this store. From then on each segment gets an entry before its file is created.
 *
 * An entry is a symbolic link whose target is JSON, like a marker: it appears and changes as a whole.
 */
export class EventEntries {
  /** Absolute path of the directory. */
  readonly path: string;
  /** The batch that was given out last, unless it was confirmed. */
  inFlight: EventsInFlight | undefined;
  /** Whether telling was begun in this store. Changed only by `find` and `begin`. */
  isBegun = false;
  /** Whether `names` must be called to know all entries, apart from those in `newIds`. */
  mustList = true;
  /** The ids of entries that were added since they were taken from here. A limited number: more must be listed. */
  private newIds: string[] = [];
  private turn: Promise<unknown> = Promise.resolve();

  constructor(
    private readonly disk: Disk,
    private readonly directories: DurableDirectories,
    private readonly syncs: SharedSyncs,
    private readonly presence: StorePresence,
    private readonly logger: StorageLogger,
    /** Absolute path of the store's root. */
    root: string,
    /** Announces events. */
    readonly news: Wakeup,
  ) {
    this.path = join(root, EVENTS);
  }

  /** The directory, if it is in use. */
  get parts(): readonly string[] {
    return this.isBegun ? [this.path] : [];
  }

  /**
   * Finds out whether telling was begun. A file in the directory's place counts as not begun, with a warning.
   *
   * @throws DataDirectoryError if it is a link to something that is away; an error of the file system if it isn't
   *   writable.
   */
  async find(): Promise<void> {
    if (!(await this.disk.isNameTaken(this.path))) return;
    try {
      await this.disk.assertDirectory(this.path);
    } catch (error) {
      if ((await this.disk.plainFileSize(this.path)) === undefined) throw error;
      this.logger.warn(`${this.path} is not a directory, so uploads are stored without being told. Move it away, and restart.`, error);
      return;
    }
    await this.disk.assertWritable(this.path);
    this.watch();
  }

  /** Begins telling: from now on segments get entries. Resolves when that is durable. */
  async begin(): Promise<void> {
    if (this.isBegun) return;
    await this.directories.ensure(this.path);
    this.watch();
  }

  private watch(): void {
    this.presence.watch(this.path);
    this.isBegun = true;
  }

  /** Runs work while no entry changes otherwise. */
  inTurn<T>(work: () => Promise<T>): Promise<T> {
    const done = this.turn.then(work);
    this.turn = done.catch(() => undefined);
    return done;
  }

  /** Resolves when the entry of a new segment is durable. */
  async add(id: string, lines: string): Promise<void> {
    if (!this.isBegun) return;
    this.presence.assertHere(this.parts);
    await this.disk.link(JSON.stringify({ lines, offset: 0 } satisfies EventEntry), join(this.path, id));
    await this.syncs.sync(this.path);
    this.note(id);
  }

  /** The ids of the entries that were added since the last call. */
  takeNewIds(): string[] {
    return this.newIds.splice(0);
  }

  private note(id: string): void {
    if (this.newIds.length < MOST_NEW) this.newIds.push(id);
    else this.mustList = true;
  }

  /**
   * All names in the directory, some at a time, in any order. Removes what crashes left unfinished. Call it within
   * `inTurn`.
   */
  async *names(): AsyncGenerator<readonly string[]> {
    this.mustList = false;
    try {
      for await (const names of this.disk.readLargeDirectory(this.path)) {
        for (const name of names) if (isUnfinished(name)) await this.disk.remove(join(this.path, name));
        yield names.filter((name) => !isUnfinished(name));
      }
    } catch (error) {
      this.mustList = true;
      throw error;
    }
  }

  /** The entry with an id; undefined if the name isn't a valid entry of this store, or is missing. */
  async read(id: string): Promise<EventEntry | undefined> {
    try {
      return asEntry(id, JSON.parse(await this.disk.readLink(join(this.path, id))));
    } catch (error) {
      if (error instanceof SyntaxError || hasCode(error, 'EINVAL', 'ENOENT')) return undefined;
      throw error;
    }
  }

  /**
   * Replaces an entry. At any time the old or the new one is in place. A power cut may undo the change until the
   * directory is synced: everything from the old offset on is then told again. Call it within `inTurn`.
   */
  async replace(id: string, entry: EventEntry): Promise<void> {
    this.presence.assertHere(this.parts);
    const replacement = join(this.path, `${id}${UNFINISHED_EXTENSION}`);
    await this.disk.remove(replacement);
    await this.disk.link(JSON.stringify(entry), replacement);
    await this.disk.rename(replacement, join(this.path, id));
  }

  /** Removes an entry, and its file if it has removed uploads. Also resolves if either is missing. */
  async remove(id: string): Promise<void> {
    if (!this.isBegun) return;
    for (const extension of [UNFINISHED_EXTENSION, REMOVED_EXTENSION, '']) await this.disk.remove(join(this.path, `${id}${extension}`));
  }

  /**
   * Replaces a segment by a copy that lacks some of its lines. The entry is changed first: should the process crash in
   * between, lines are told again, and none is left out, because an offset in the copy is never higher than in the
   * segment.
   *
   * @param movedTo returns where a position in the segment is in the copy.
   * @param replace replaces the segment durably.
   */
  async whileReplacing(segment: string, movedTo: (position: number) => number, replace: () => Promise<void>): Promise<void> {
    if (!this.isBegun) return replace();
    await this.inTurn(async () => {
      const id = basename(segment, '.ndjson');
      const entry = await this.read(id);
      if (entry && movedTo(entry.offset) !== entry.offset) {
        await this.replace(id, { ...entry, offset: movedTo(entry.offset) });
        await this.syncs.sync(this.path);
      }
      if (this.inFlight?.id === id) this.inFlight.end = movedTo(this.inFlight.end);
      await replace();
    });
  }

  /**
   * Makes the events of a removal durable. They appear as a whole. Safe to repeat.
   *
   * @param id the id of the removal list.
   * @param pieces the lines of the events.
   */
  async addRemoved(id: string, pieces: Iterable<Buffer>): Promise<void> {
    if (this.isBegun) await this.inTurn(() => this.writeRemoved(id, pieces));
  }

  private async writeRemoved(id: string, pieces: Iterable<Buffer>): Promise<void> {
    this.presence.assertHere(this.parts);
    const ownId = UPLOAD_ID.test(id) ? id : uuidV7();
    const path = join(this.path, `${ownId}${REMOVED_EXTENSION}`);
    await writeWhole(this.disk, path, pieces);
    await this.disk.link(JSON.stringify({ lines: removedPath(ownId), offset: 0 } satisfies EventEntry), join(this.path, ownId)).catch((error: unknown) => {
      // From an attempt before a crash. Its offset is valid, because the file is the same.
      if (!hasCode(error, 'EEXIST')) throw error;
    });
    await this.syncs.sync(this.path);
    this.note(ownId);
    this.news.wake();
  }
}

/** Whether a name in the directory is that of a file with removed uploads. It begins with the id of its entry. */
export const isRemovedFile = (name: string): boolean => /^[0-9a-f-]{36}\.removed$/.test(name);

/** Whether a name in the directory is that of an entry or a file while it is being written. */
const isUnfinished = (name: string): boolean => /^[0-9a-f-]{36}(\.removed)?\.unfinished$/.test(name);
