import { v7 as uuidV7 } from 'uuid';
import { MIB } from '../../../../common/sizes.js';
import type { IndexFlush } from '../../../application/ports/index-flush.js';
import { FileRemovedError } from './disk-error.js';
import type { IndexPosition } from './pending-markers.js';
import { type ReceivedLine, Segment } from './segment.js';
import type { StoreDirectory } from './store-directory.js';
import { MAX_DISORDER_MS } from './stored-uploads/segment-reader.js';

/**
 * The most bytes that one write appends, except for a single longer line. Recovery relies on this limit when it looks
 * for damaged lines, because a crash can damage only the last write.
 */
export const MAX_BATCH_BYTES = MIB;

export interface IndexLogOptions {
  readonly maxSegmentBytes: number;
  readonly onFlush: (flush: IndexFlush) => void;
}

/** The error when an index line could not be made durable, but the next boot may still find it. */
export class LineMayRemainError extends Error {
  constructor(cause: unknown) {
    super('An index line could be neither made durable nor removed.', { cause });
    this.name = new.target.name;
  }
}

interface WaitingLine extends ReceivedLine {
  readonly directory: string;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Appends the index lines of one kind of upload, in the order of their arrival. Lines that arrive during a flush wait,
 * and share the next flushes.
 */
export class IndexLog {
  private readonly waiting: WaitingLine[] = [];
  private readonly rotations: Pick<WaitingLine, 'resolve' | 'reject'>[] = [];
  private segment: Segment | undefined;
  private running: Promise<void> | undefined;

  constructor(
    private readonly store: StoreDirectory,
    private readonly options: IndexLogOptions,
  ) {}

  get waitingLines(): number {
    return this.waiting.length;
  }

  /**
   * A lower bound for the positions of all index lines that are appended to a directory from now on.
   *
   * @param directory relative to the store's root.
   */
  position(directory: string): IndexPosition {
    const { segment } = this;
    if (segment?.directory === directory) return { segment: segment.path, offset: segment.durableLength };
    // The path sorts before that of the next line's segment: UUIDs of version 7 never go backwards in a process.
    return { segment: `${directory}/${uuidV7()}.ndjson`, offset: 0 };
  }

  /**
   * Appends an index line. Resolves when the line is durable.
   *
   * @param directory the directory of the line's segment, relative to the store's root.
   * @param bytes the line, with its newline.
   * @throws ServiceError `storage-failure` at once if there is no space for the line.
   * @throws LineMayRemainError; after any other error the line is gone, at the latest after the next boot.
   */
  append(directory: string, { uploadId, receivedAt }: { readonly uploadId: string; readonly receivedAt: Date }, bytes: Uint8Array): Promise<void> {
    const { reserve } = this.store;
    if (bytes.length > reserve.left) reserve.refuse();
    reserve.left -= bytes.length;
    return new Promise((resolve, reject) => {
      this.waiting.push({ directory, uploadId, receivedAt: receivedAt.getTime(), bytes, resolve, reject });
      this.running ??= this.run();
    });
  }

  /** Closes the current segment for good, so that later lines go to a new one. Rejects if it can't be closed. */
  rotate(): Promise<void> {
    return new Promise((resolve, reject) => {
      this.rotations.push({ resolve, reject });
      this.running ??= this.run();
    });
  }

  /** Closes the current segment, or leaves that to the next boot. Call `close` only when no line is waiting. */
  async close(): Promise<void> {
    await this.segment?.closeOrMark();
    await this.segment?.closeFile();
  }

  private async run(): Promise<void> {
    while (this.waiting.length > 0 || this.rotations.length > 0) {
      if (this.rotations.length > 0) await this.closeSegment(this.rotations.splice(0));
      const batch = this.takeBatch();
      if (batch.length > 0) await this.flush(batch);
    }
    this.running = undefined;
  }

  private async closeSegment(rotations: readonly Pick<WaitingLine, 'resolve' | 'reject'>[]): Promise<void> {
    try {
      await this.segment?.close();
      this.segment = undefined;
      for (const { resolve } of rotations) resolve();
    } catch (error) {
      for (const { reject } of rotations) reject(error);
    }
  }

  private takeBatch(): WaitingLine[] {
    const directory = this.waiting[0]?.directory;
    let bytes = 0;
    let newest = -Infinity;
    let count = 0;
    for (const line of this.waiting) {
      bytes += line.bytes.length;
      const isOutOfOrder = line.receivedAt < newest - MAX_DISORDER_MS;
      if (isOutOfOrder || line.directory !== directory || (count > 0 && bytes > MAX_BATCH_BYTES)) break;
      newest = Math.max(newest, line.receivedAt);
      count += 1;
    }
    return this.waiting.splice(0, count);
  }

  private async flush(batch: WaitingLine[]): Promise<void> {
    const began = performance.now();
    let failure = await this.write(batch);
    if (failure?.error instanceof FileRemovedError) failure = await this.write(batch);
    this.options.onFlush({ lines: batch.length, seconds: (performance.now() - began) / 1000, ok: !failure });
    const { events } = this.store;
    if (events.isBegun && !failure) events.news.wake();
    for (const line of batch) {
      if (failure) line.reject(failure.error);
      else line.resolve();
    }
  }

  private async write(batch: WaitingLine[]): Promise<{ error: unknown } | undefined> {
    let segment: Segment | undefined;
    try {
      segment = this.currentFor(batch) ?? (await this.nextFor(batch));
      await segment.append(batch);
      return undefined;
    } catch (error) {
      const gone = !segment || (await segment.closeOrMark());
      return { error: gone ? error : new LineMayRemainError(error) };
    }
  }

  private currentFor(batch: readonly WaitingLine[]): Segment | undefined {
    const { segment } = this;
    let length = segment?.durableLength ?? 0;
    for (const { bytes } of batch) length += bytes.length;
    const isTooLong = length > this.options.maxSegmentBytes || length > this.store.reserve.longestSegment;
    const isFull = segment === undefined || (segment.durableLength > 0 && isTooLong);
    return !isFull && segment.directory === batch[0]?.directory && segment.accepts(batch) ? segment : undefined;
  }

  private async nextFor(batch: readonly WaitingLine[]): Promise<Segment> {
    await this.segment?.close();
    return (this.segment = new Segment(this.store, batch[0]?.directory ?? ''));
  }
}
