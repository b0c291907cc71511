import { basename, dirname } from 'node:path';
import { v7 as uuidV7 } from 'uuid';
import { allDone } from '../../../../common/each-of.js';
import { FileRemovedError } from './disk-error.js';
import { closeQuietly, type DiskFile } from './disk.js';
import type { StoreDirectory } from './store-directory.js';
import { LineTimes } from './stored-uploads/line-times.js';
import { MAX_DISORDER_MS, type SegmentSpan } from './stored-uploads/segment-reader.js';

export interface ReceivedLine {
  /** The index line, with its newline. */
  readonly bytes: Uint8Array;
  readonly uploadId: string;
  /** When the upload was received, in milliseconds since 1970. */
  readonly receivedAt: number;
}

/**
 * One file of index lines. A marker exists from before the file is created until after it is closed, so that after a
 * crash, recovery cuts off incomplete or damaged lines at the file's end. After a failed append, the segment accepts no
 * more lines, and `close` cuts off everything behind the last line that is durable.
 */
export class Segment {
  readonly path: string;
  private readonly absolutePath: string;
  private readonly id = uuidV7();
  /**
   * The part of the store that contains the uploaded files. Each append checks that it is present. The segment's own
   * directory needs no such check, because the path of the segment's file is checked.
   */
  private readonly contentParts: readonly string[];
  private file: DiskFile | undefined;
  durableLength = 0;
  span: SegmentSpan | undefined;
  readonly times = new LineTimes();
  private state: 'open' | 'torn' | 'closed' = 'open';

  constructor(
    private readonly store: StoreDirectory,
    /** The directory of the segment's file, relative to the store's root. */
    readonly directory: string,
  ) {
    this.path = `${directory}/${this.id}.ndjson`;
    this.absolutePath = store.at(this.path);
    this.contentParts = [store.at('files', basename(dirname(directory)))];
  }

  accepts(lines: readonly ReceivedLine[]): boolean {
    if (this.state !== 'open') return false;
    for (const { receivedAt } of lines) if (receivedAt < this.times.newest - MAX_DISORDER_MS) return false;
    return true;
  }

  /**
   * Appends index lines. Resolves when they are durable.
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
      // A single line isn't copied: it may be long, and the copying would block the event loop.
      await file.write(chunks.length === 1 ? chunks : [Buffer.concat(chunks)], this.durableLength);
      this.store.presence.assertHere(this.contentParts);
      if (!(await file.standsAt(this.absolutePath))) throw new FileRemovedError(this.path);
    } catch (error) {
      this.state = 'torn';
      throw error;
    }
    this.durableLength += length;
    const [first, last] = [lines[0], lines.at(-1)];
    if (first && last) this.span = { first: this.span?.first ?? first.receivedAt, last: last.receivedAt };
  }

  /** Closes the segment for good, after cutting off what a failed append left. May be called again if that fails. */
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
    await this.closeFile();
    await this.store.attempt(`Closing ${this.path}`, async () => {
      if (this.durableLength === 0) {
        // The empty file is removed durably, before the marker: without the marker, nothing would remove a file that a
        // power cut brings back.
        await this.store.removeDurably(this.path);
        await this.store.events.remove(this.id);
      }
      await this.store.markers.remove(this.id);
    });
  }

  /**
   * Closes the segment, or marks it so that the next boot cuts off the leftovers of a failed append.
   *
   * @returns false if neither works: the leftovers may then survive the next boot.
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

  /** Closes the file, even if `close` has failed. Nothing can be appended or cut off afterwards. */
  async closeFile(): Promise<void> {
    if (this.file) await closeQuietly(this.file);
  }

  private async create(): Promise<DiskFile> {
    const { disk, directories, markers, presence, events } = this.store;
    // Comes first, because the event outbox removes the entry of a segment that is neither open nor on the disk.
    this.store.openSegments.set(this.path, this);
    await allDone([markers.add(this.id, { segment: this.path }), events.add(this.id, this.path)]);
    const directory = this.store.at(this.directory);
    this.file = await directories.within(directory, () => disk.createSynchronized(this.absolutePath));
    presence.assertOnVolumeOf(dirname(directory), this.absolutePath);
    await disk.syncDirectory(directory);
    return this.file;
  }
}
