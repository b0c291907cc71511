import { storageFailure } from '../../../application/storage-failure.js';
import type { Bucket } from './bucket.js';
import { markerKey, segmentKey } from './keys.js';
import type { Lease } from './lease.js';
import type { Retries } from './retries.js';
import { SegmentQueue } from './segment-queue.js';
import type { SegmentWriter, UploadLine } from './segment-writer.js';
import type { Sweeper } from './sweeper.js';
import { sharedMarkerKey, type UploadMarker } from './upload-marker.js';
import type { UploadMarkers } from './upload-markers.js';

/** Bounds the memory of a batch: 64 files of at most 64 KiB. */
const MAX_FILES = 64;
/** How long a batch waits for the other writes once half of them have ended. */
const PATIENCE_MS = 1_000;

export interface SmallFile extends UploadLine {
  readonly path: string;
  readonly bytes: Buffer;
}

/** A file that has left its batch, or is the only one. */
interface LoneFile {
  readonly file: SmallFile;
  readonly writing: Promise<void>;
  readonly segment: string;
  readonly marking: Promise<Lease<UploadMarker>>;
}

interface SmallFilesOptions {
  readonly bucket: Bucket;
  readonly writer: SegmentWriter;
  readonly markers: UploadMarkers;
  readonly sweeper: Sweeper;
  readonly retries: Retries;
}

/**
 * Stores small files that wait at the same time together: one marker names all of them, and their index lines share a
 * segment. So a file takes little more than one request. The marker's name is that of the segment. A file that doesn't
 * share them has a marker and a segment of its own.
 *
 * A file whose write fails, or takes much longer than those of the others, continues alone. So the others neither fail
 * with it nor wait for it.
 */
export class SmallFiles {
  private readonly queue = new SegmentQueue<SmallFile>((segment, batch) => this.write(segment, batch), {
    bytesOf: ({ line, bytes }) => line.length + bytes.length,
    maxUploads: MAX_FILES,
  });

  constructor(private readonly options: SmallFilesOptions) {}

  get waitingLines(): number {
    return this.queue.size;
  }

  /**
   * Stores the file and the index line of an upload that `mayShare` a segment. Resolves when both are in the store.
   * After a rejection, neither is, or they are undone in the background.
   *
   * @param directory where the segment is created.
   * @throws ServiceError `storage-failure`
   */
  async store(directory: string, file: SmallFile): Promise<void> {
    await this.queue.add(directory, file).catch(storageFailure('A file could not be stored.'));
  }

  /** Resolves when no upload waits or is being written in a batch. Those that continue alone may still be in progress. */
  close(): Promise<void> {
    return this.queue.close();
  }

  private async write(segment: string, batch: readonly SmallFile[]): Promise<ReadonlyMap<SmallFile, Promise<void>>> {
    const [only] = batch;
    if (only && batch.length === 1) {
      const finishing = this.writeAlone(only, segment);
      await withPatience(finishing);
      return new Map([[only, finishing]]);
    }
    const marking = this.options.markers.begin(sharedMarkerKey(segment), contentOf(segment, batch));
    const alone: LoneFile[] = [];
    try {
      // A marker exists before a file is visible, and until the file's line is.
      await marking;
      const open = await openWrites(new Map(batch.map((file) => [file, this.upload(file)])));
      for (const [file, writing] of open) alone.push({ ...this.markAlone(file, segment), writing });
      await Promise.all(alone.map((each) => each.marking));
      const created = batch.filter((file) => !open.has(file));
      // Whoever settles the shared marker later must not remove files that have left it.
      if (alone.length > 0) await (await marking).rewrite(contentOf(segment, created));
      if (created.length > 0) await this.options.writer.create(segment, created);
    } catch (error) {
      for (const each of [{ segment, marking }, ...alone]) this.undo(each);
      throw error;
    }
    this.options.markers.end(marking);
    return new Map(alone.map((each) => [each.file, this.finish(each)]));
  }

  private async writeAlone(file: SmallFile, shared: string): Promise<void> {
    const marked = this.markAlone(file, shared);
    await this.finish({ ...marked, writing: marked.marking.then(() => this.upload(file)) });
  }

  /** Gives a file a marker and a segment of its own, named by the upload's id, so that a search finds it at once. */
  private markAlone(file: SmallFile, shared: string): Omit<LoneFile, 'writing'> {
    const { uploadId, path } = file;
    const segment = segmentKey(shared.slice(0, shared.lastIndexOf('/')), uploadId);
    return { file, segment, marking: this.options.markers.begin(markerKey(uploadId), { content_path: path, segment }) };
  }

  private upload({ path, bytes }: SmallFile): Promise<void> {
    return this.options.bucket.upload(path, once(bytes));
  }

  private async finish({ file, writing, segment, marking }: LoneFile): Promise<void> {
    try {
      await writing;
      await this.options.writer.create(segment, [file]);
    } catch (error) {
      this.undo({ segment, marking });
      throw error;
    }
    this.options.markers.end(marking);
  }

  private undo({ segment, marking }: Pick<LoneFile, 'segment' | 'marking'>): void {
    this.options.retries.begin(`Undoing ${segment}`, async () => {
      // If the write of the marker failed, the marker may exist nevertheless. The sweeper then removes it.
      const marker = await marking.catch(() => undefined);
      if (marker) await this.options.sweeper.undo(marker);
    });
  }
}

const contentOf = (segment: string, files: readonly SmallFile[]): UploadMarker => ({ content_paths: files.map(({ path }) => path), segment });

async function* once(bytes: Buffer): AsyncGenerator<Buffer> {
  yield await Promise.resolve(bytes);
}

/**
 * Waits until all writes have ended, or until a second after half of them have.
 *
 * @returns those that haven't succeeded by then.
 * @throws the first error, if all have failed.
 */
async function openWrites(writes: ReadonlyMap<SmallFile, Promise<void>>): Promise<ReadonlyMap<SmallFile, Promise<void>>> {
  const open = new Map(writes);
  const errors: unknown[] = [];
  const ends = [...writes].map(([file, writing]) => writing.then(() => void open.delete(file), (error: unknown) => void errors.push(error)));
  await firstOf(ends, ends.length / 2);
  await withPatience(Promise.all(ends));
  if (errors.length === writes.size) throw errors[0];
  // A copy, because further writes may succeed.
  return new Map(open);
}

/** Resolves when at least `count` of the promises have resolved. */
function firstOf(promises: readonly Promise<void>[], count: number): Promise<void> {
  let resolved = 0;
  return new Promise((resolve) => {
    for (const promise of promises) void promise.then(() => { if (++resolved >= count) resolve(); });
  });
}

/** Resolves when a promise has settled, or after a second. */
async function withPatience(promise: Promise<unknown>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const over = new Promise((resolve) => { timer = setTimeout(resolve, PATIENCE_MS); });
  await Promise.race([promise.catch(() => undefined), over]);
  clearTimeout(timer);
}
