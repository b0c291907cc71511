import { basename, join } from 'node:path';
import { v7 as uuidV7 } from 'uuid';
import { hasCode } from '../../../../../common/error-code.js';
import { OneAtATime } from '../../../../../common/one-at-a-time.js';
import { isJsonObject } from '../../../../../common/text.js';
import type { Wakeup } from '../../../../../common/wakeup.js';
import type { StorageLogger } from '../../../../application/storage-logger.js';
import { isLayoutPath, SEGMENTS, UPLOAD_ID } from '../../../../domain/layout-names.js';
import { asNotAFile, NotAFileError } from '../disk-error.js';
import type { Disk } from '../disk.js';
import type { DurableDirectories } from '../durable-directories.js';
import { jsonOfLink, replaceLink } from '../link-json.js';
import type { StorePresence } from '../store-presence.js';
import { UNFINISHED_EXTENSION, writeWhole } from '../whole-file.js';

export const EVENTS = 'events';
const REMOVED_EXTENSION = '.removed';
const MAX_NEW = 1_000;

/** Says up to which offset in a file the events of its lines are confirmed. */
export interface EventEntry {
  /** The file's path relative to the store's root: a segment (file of index lines) or a file of removed uploads. */
  readonly lines: string;
  /** In bytes: usually where a line begins, but maybe within a line after an incomplete removal. */
  readonly offset: number;
}

/** A batch of events that `EventQueue.next` has returned, and that isn't confirmed yet. */
export interface EventsInFlight {
  readonly id: string;
  /** The offset after the batch's last line, in bytes. Decreases when a removal removes lines before it. */
  end: number;
  readonly isLast: boolean;
}

/** The path, relative to the store's root, of the file that lists the uploads of one removal. */
export const removedPath = (id: string): string => `${EVENTS}/${id}${REMOVED_EXTENSION}`;

function asEntry(id: string, data: unknown): EventEntry | undefined {
  if (!isJsonObject(data)) return undefined;
  const { lines, offset } = data;
  if (typeof lines !== 'string' || !Number.isSafeInteger(offset) || (offset as number) < 0) return undefined;
  const isOwn = lines === removedPath(id) || (isLayoutPath(lines, SEGMENTS) && basename(lines, '.ndjson') === id);
  return isOwn ? { lines, offset: offset as number } : undefined;
}

/**
 * The event entries of a store, in `events/`: one for each file that has, or may still get, unconfirmed events. Once
 * the outbox was opened, each new segment gets its entry before its file is created.
 *
 * An entry is a symbolic link whose target is JSON, like a marker in `pending/`: it appears and changes as a whole.
 */
export class EventEntries {
  readonly path: string;
  inFlight: EventsInFlight | undefined;
  isBegun = false;
  /** Whether there may be entries that only a listing of `events/` finds. */
  mustList = true;
  private newIds: string[] = [];
  /** Serializes returning and confirming events with the parts of removals that change entries. */
  readonly jobs = new OneAtATime();

  constructor(
    private readonly disk: Disk,
    private readonly directories: DurableDirectories,
    private readonly presence: StorePresence,
    private readonly logger: StorageLogger,
    root: string,
    readonly news: Wakeup,
  ) {
    this.path = join(root, EVENTS);
  }

  get parts(): readonly string[] {
    return this.isBegun ? [this.path] : [];
  }

  /**
   * Finds out whether the outbox was ever opened. If `events` is a regular file, the outbox counts as never opened,
   * with a warning.
   *
   * @throws DataDirectoryError if `events` is neither a directory nor a regular file; an error of the file system if
   *   the directory isn't writable.
   */
  async find(): Promise<void> {
    if (!(await this.disk.isNameTaken(this.path))) return;
    try {
      await this.disk.assertDirectory(this.path);
    } catch (error) {
      if ((await this.disk.plainFileSize(this.path)) === undefined) throw error;
      this.logger.warn(`${this.path} is not a directory, so uploads are stored without events. Move it away, and restart.`, error);
      return;
    }
    await this.disk.assertWritable(this.path);
    this.watch();
  }

  /** Creates `events/`. Resolves when the directory is durable. */
  async begin(): Promise<void> {
    if (this.isBegun) return;
    await this.directories.ensure(this.path);
    this.watch();
  }

  private watch(): void {
    this.presence.watch(this.path);
    this.isBegun = true;
  }

  /** Adds the entry of a new segment, if the outbox was ever opened. Resolves when it is durable. */
  async add(id: string, lines: string): Promise<void> {
    if (!this.isBegun) return;
    this.presence.assertHere(this.parts);
    await this.disk.link(JSON.stringify({ lines, offset: 0 } satisfies EventEntry), join(this.path, id));
    await this.directories.sync(this.path);
    this.note(id);
  }

  takeNewIds(): string[] {
    return this.newIds.splice(0);
  }

  private note(id: string): void {
    if (this.newIds.length < MAX_NEW) this.newIds.push(id);
    else this.mustList = true;
  }

  /** Yields the names in `events/` in any order, and removes unfinished ones. Call it within a job of `jobs`. */
  async *names(): AsyncGenerator<readonly string[]> {
    this.mustList = false;
    try {
      for await (const names of this.disk.readLargeDirectory(this.path)) {
        const found: string[] = [];
        for (const name of names) if (!isUnfinished(name) || !(await this.isRemoved(name))) found.push(name);
        yield found;
      }
    } catch (error) {
      this.mustList = true;
      throw error;
    }
  }

  /** Removes an unfinished file. False if something else has its name, which stays. */
  private async isRemoved(name: string): Promise<boolean> {
    const path = join(this.path, name);
    try {
      await this.disk.remove(path).catch(asNotAFile(path));
      return true;
    } catch (error) {
      if (error instanceof NotAFileError) return false;
      throw error;
    }
  }

  async read(id: string): Promise<EventEntry | undefined> {
    return asEntry(id, await jsonOfLink(this.disk.readLink(join(this.path, id))));
  }

  /**
   * Replaces or creates an entry, atomically. Doesn't sync: a power cut may bring back the old entry, whose events are
   * then delivered again. Call it within a job of `jobs`.
   */
  async replace(id: string, entry: EventEntry): Promise<void> {
    this.presence.assertHere(this.parts);
    await replaceLink(this.disk, join(this.path, id), entry);
  }

  /** Removes an entry, and its file of removed uploads if there is one. Does nothing if the outbox was never opened. */
  async remove(id: string): Promise<void> {
    if (!this.isBegun) return;
    for (const extension of [UNFINISHED_EXTENSION, REMOVED_EXTENSION, '']) await this.disk.remove(join(this.path, `${id}${extension}`));
  }

  /**
   * Replaces a segment by a copy without the lines of removed uploads, after converting the offset in the segment's
   * entry. A crash or failure between the two may deliver some events again, but loses none, because the offset in the
   * copy is never higher.
   *
   * @param movedTo converts a position in the segment to the position in the copy.
   */
  async whileReplacing(segment: string, movedTo: (position: number) => number, replace: () => Promise<void>): Promise<void> {
    if (!this.isBegun) return replace();
    await this.jobs.run(async () => {
      const id = basename(segment, '.ndjson');
      const entry = await this.read(id);
      // `assertHere` throws if `events/` is away: then the entry only looks missing, and would keep too high an offset.
      this.presence.assertHere(this.parts);
      if (entry && movedTo(entry.offset) !== entry.offset) {
        await this.replace(id, { ...entry, offset: movedTo(entry.offset) });
        await this.directories.sync(this.path);
      }
      if (this.inFlight?.id === id) this.inFlight.end = movedTo(this.inFlight.end);
      await replace();
    });
  }

  /**
   * Makes the events of a removal durable, if the outbox was ever opened. Safe to repeat after a failure or a crash.
   *
   * @param id the id of the removal list in `pending/`.
   * @param pieces the bytes of the events, one line for each event.
   */
  async addRemoved(id: string, pieces: AsyncIterable<Buffer>): Promise<void> {
    if (this.isBegun) await this.jobs.run(() => this.writeRemoved(id, pieces));
  }

  private async writeRemoved(id: string, pieces: AsyncIterable<Buffer>): Promise<void> {
    this.presence.assertHere(this.parts);
    const ownId = UPLOAD_ID.test(id) ? id : uuidV7();
    const path = join(this.path, `${ownId}${REMOVED_EXTENSION}`);
    await writeWhole(this.disk, path, pieces);
    await this.disk.link(JSON.stringify({ lines: removedPath(ownId), offset: 0 } satisfies EventEntry), join(this.path, ownId)).catch((error: unknown) => {
      // An earlier attempt has added the entry. Its offset is still valid, because the file has the same lines.
      if (!hasCode(error, 'EEXIST')) throw error;
    });
    await this.directories.sync(this.path);
    this.note(ownId);
    this.news.wake();
  }
}

/** Whether a name in `events/` is that of a file that lists removed uploads. */
export const isRemovedFile = (name: string): boolean => /^[0-9a-f-]{36}\.removed$/.test(name);

const isUnfinished = (name: string): boolean => /^[0-9a-f-]{36}(\.removed)?\.unfinished$/.test(name);
