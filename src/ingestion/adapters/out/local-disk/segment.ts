import { basename, dirname } from 'node:path';
import { v7 as uuidV7 } from 'uuid';
import { allDone } from '../../../../common/each-of.js';
import { FileRemovedError } from './disk-error.js';
import { closeQuietly, type DiskFile } from './disk.js';
import type { StoreDirectory } from './store-directory.js';
import { LineTimes } from './stored-uploads/line-times.js';
import { MAX_DISORDER_MS, type SegmentSpan } from './stored-uploads/segment-reader.js';

/** An index line that is to be appended to a segment. */
export interface ReceivedLine {
  /** The line with its newline. */
  readonly bytes: Uint8Array;
  readonly uploadId: string;
  /** When the upload was complete, in milliseconds since 1970. */
  readonly receivedAt: number;
}

/**
 * A segment: one file of index lines. The first append adds a marker (and an event entry, if the event outbox was ever
 * opened), and then creates the file. `close` removes the marker, and the file too if none of its lines is durable. A
 * marker that a crash has left makes recovery cut off incomplete or damaged lines at the file's end. After a failed
 * append, the segment accepts no more lines, and `close` cuts off everything behind the last line that is durable.
 */
export class Segment {
  readonly path: string;
  private readonly absolutePath: string;
  private readonly id = uuidV7();
  /**
   * A list with the absolute path of the directory with the uploaded files that the segment's lines name
   * (`files/kind=...`). Each append checks that this directory is still present. The segment's own directory needs no
   * such check, because the path of the segment's file is checked.
   */
  private readonly contentParts: readonly string[];
  private file: DiskFile | undefined;
  /** The length of the segment's durable lines, in bytes. */
  durableLength = 0;
  /** When the uploads of the first and the last durable line were received; undefined without a durable line. */
  span: SegmentSpan | undefined;
  readonly times = new LineTimes();
  private state: 'open' | 'torn' | 'closed' = 'open';

  constructor(
    private readonly store: StoreDirectory,
    /** Path of the segment's directory, relative to the store's root. */
    readonly directory: string,
  ) {
    this.path = `${directory}/${this.id}.ndjson`;
    this.absolutePath = store.at(this.path);
    this.contentParts = [store.at('files', basename(dirname(directory)))];
  }

  /**
   * Whether these lines can be appended to the segment: the segment is open, and none of the lines was received more
   * than MAX_DISORDER_MS before the newest line of the segment.
   */
  accepts(lines: readonly ReceivedLine[]): boolean {
    if (this.state !== 'open') return false;
    for (const { receivedAt } of lines) if (receivedAt < this.times.newest - MAX_DISORDER_MS) return false;
    return true;
  }

  /**
   * Appends lines, after creating the segment's file if necessary. Resolves when the lines are durable.
   *
   * @throws StoreAwayError; FileRemovedError; OtherVolumeError; DataDirectoryError; an error of the file system.
   */
  async append(lines: readonly ReceivedLine[]): Promise<void> {
    const chunks: Uint8Array[] = [];
    let length = 0;
    for (const { bytes, uploadId, receivedAt } of lines) {
      chunks.push(bytes);
      length += bytes.length;
      this.times.add(uploadId, receivedAt);
    }
    try {
      const file = this.file ?? (await this.create());
      // A single line isn't copied: it may be long, and copying it would block the event loop.
      await file.write(chunks.length === 1 ? chunks : [Buffer.concat(chunks)], this.durableLength);
      const synced = file.sync();
      const isThere = file.standsAt(this.absolutePath);
      // `isThere` is awaited below, after the sync. Until then, its rejection must not count as unhandled.
      isThere.catch(() => undefined);
      await synced;
      this.store.presence.assertHere(this.contentParts);
      if (!(await isThere)) throw new FileRemovedError(this.path);
    } catch (error) {
      this.state = 'torn';
      throw error;
    }
    this.durableLength += length;
    const [first, last] = [lines[0], lines.at(-1)];
    if (first && last) this.span = { first: this.span?.first ?? first.receivedAt, last: last.receivedAt };
  }

  /**
   * Closes the segment for good, after cutting off what a failed append left. Rejects if the cutting fails; `close` can
   * then be called again.
   */
  async close(): Promise<void> {
    if (this.state === 'closed') return;
    if (this.state === 'torn' && this.file) {
      await this.file.truncate(this.durableLength);
      await this.file.sync();
    }
    this.state = 'closed';
    this.store.segments.rememberTimes(this.path, this.times);
    this.store.openSegments.delete(this.path);
    this.store.idempotency.segmentClosed(this);
    const { file } = this;
    if (file) await closeQuietly(file);
    await this.store.attempt(`Closing ${this.path}`, async () => {
      if (this.durableLength === 0) {
        // Removes the empty file durably, because its marker is removed next: if a power cut then brought the file
        // back, nothing would remove it.
        await this.store.removeDurably(this.path);
        await this.store.events.remove(this.id);
      }
      await this.store.markers.remove(this.id);
    });
  }

  /**
   * Closes the segment. If an append has failed, and the bytes that it left can't be cut off now, leaves a marker so
   * that the next boot cuts them off.
   *
   * @returns false if the bytes couldn't be cut off, and the marker couldn't be made durable: the bytes may then still
   *   be there after the next boot. Otherwise true.
   */
  async closeOrMark(): Promise<boolean> {
    const { store, path, durableLength } = this;
    try {
      await this.close();
      return true;
    } catch (error) {
      store.logger.warn(`Truncating ${path} to ${durableLength} bytes failed.`, error);
    }
    try {
      await store.markers.replace(this.id, { segment: path, durable_length: durableLength });
      return true;
    } catch (error) {
      store.logger.warn(`Marking ${path} for truncation failed.`, error);
      return false;
    }
  }

  private async create(): Promise<DiskFile> {
    const { disk, directories, markers, presence, events } = this.store;
    // Registers the segment as open before its event entry is added: the event outbox removes the entry of a segment
    // that is neither open nor on the disk.
    this.store.openSegments.set(this.path, this);
    await allDone([markers.add(this.id, { segment: this.path }), events.add(this.id, this.path)]);
    const directory = this.store.at(this.directory);
    this.file = await directories.within(directory, () => disk.create(this.absolutePath));
    presence.assertOnVolumeOf(dirname(directory), this.absolutePath);
    await disk.syncDirectory(directory);
    return this.file;
  }
}
