import { decodeIndexLine } from '../../../../application/line-decoding.js';
import type { ByteRange, CustomerAccess, LineMemory, RemovalOptions, UploadFilter, UploadPage, UploadPosition } from '../../../../application/ports/stored-uploads.port.js';
import { idempotencyScope } from '../../../../domain/idempotency.js';
import { isSelected } from '../../../../domain/upload-filter.js';
import { UPLOAD_KINDS, type Upload, type UploadKind } from '../../../../domain/upload.js';
import { unlessAbsent } from '../disk-error.js';
import type { StoreDirectory } from '../store-directory.js';
import { FileBytes } from './file-bytes.js';
import { completeRemovals, removeUploads, type ResumedRemovals } from './removal.js';
import type { RemovalList, RemovedUpload } from './removal-list.js';
import { headOf, isOfCustomer } from './segment-lines.js';
import type { SegmentReader } from './segment-reader.js';
import { Segments } from './segments.js';
import { UploadList } from './upload-list.js';
import { type FoundLine, UploadSearch } from './upload-search.js';

const DAY_MS = 24 * 60 * 60 * 1000;

/** The part of an open store that finds, lists, reads and removes stored uploads. Throws errors of the file system. */
export class Archive {
  private readonly segments: Segments;
  private readonly search: UploadSearch;
  private removing: Promise<unknown> = Promise.resolve();
  private readonly ending = new AbortController();

  constructor(
    private readonly store: StoreDirectory,
    /**
     * Waits until nothing in progress refers to the segments (files of index lines) that are closed.
     *
     * @param purge whether to also remove the journals, which have copies of small files.
     * @param rotate whether to first close the segments that accept lines. Otherwise, the caller must not change these.
     */
    private readonly settle: (purge: boolean, rotate: boolean) => Promise<void>,
    /** The longest file that a journal may have a copy of, in bytes. */
    private readonly mostSmallBytes: number,
  ) {
    this.segments = new Segments(store);
    this.search = new UploadSearch(this.segments);
  }

  async find(uploadId: string, memory?: LineMemory): Promise<Upload | undefined> {
    return (await this.findLine(uploadId, memory))?.upload;
  }

  async list(filter: UploadFilter, limit: number, after?: UploadPosition, memory?: LineMemory): Promise<UploadPage> {
    const page = await new UploadList(this.segments, filter, limit, after, memory).page();
    // If the store's volume went away while the index was read, the store looked empty: `assertHere` then throws.
    this.store.presence.assertHere();
    return page;
  }

  async openContent({ content }: Upload, range?: ByteRange): Promise<AsyncIterable<Uint8Array> | undefined> {
    this.store.presence.assertHere();
    const file = content && (await unlessAbsent(this.store.disk.open(this.store.at(content.path))));
    if (!file) {
      this.store.presence.assertHere();
      return undefined;
    }
    return new FileBytes(file, range?.first ?? 0, range ? range.last + 1 : content.size);
  }

  remove(uploadId: string, mayAccess: CustomerAccess = () => true): Promise<boolean> {
    return this.inTurn(async () => {
      const resumed = await this.resumeRemovals();
      const found = await this.findLine(uploadId);
      if (!found) return isCompleted(resumed, uploadId, mayAccess);
      const { segment, upload } = found;
      if (!mayAccess(upload.customerId)) return false;
      await this.prepare((upload.content?.size ?? Infinity) <= this.mostSmallBytes, this.store.openSegments.has(segment));
      await removeUploads(this.store, { segment, removedAt: new Date().toISOString(), uploads: [removedUpload(upload)] });
      return true;
    });
  }

  removeAll(filter: UploadFilter, options: RemovalOptions): Promise<number> {
    return this.inTurn(async () => {
      const { dryRun = false, onProgress = () => undefined, signal } = options;
      signal?.throwIfAborted();
      const resumed = dryRun ? undefined : await this.resumeRemovals();
      // The segments are listed before `prepare` closes the open ones. A segment that is opened later must be left
      // alone, because the marker of an upload in progress may refer to it.
      const paths = await this.segmentsOf(filter);
      if (!dryRun && paths.length > 0) await this.prepare(true, true);
      let uploads = 0;
      for (const [index, path] of paths.entries()) {
        signal?.throwIfAborted();
        this.ending.signal.throwIfAborted();
        const removed = await this.selected(path, filter);
        if (removed.length > 0 && !dryRun) await removeUploads(this.store, { segment: path, removedAt: new Date().toISOString(), uploads: removed });
        this.store.presence.assertHere();
        uploads += removed.length;
        onProgress({ segments: index + 1, allSegments: paths.length, uploads });
      }
      this.store.presence.assertHere();
      // A removal that failed again may have removed the lines of uploads but not their files. These uploads are no
      // longer found, so the error is the only sign that something is left.
      for (const { list, error } of resumed?.failed ?? []) if (mayHaveUploadsOf(list, filter.customerId)) throw error;
      return uploads;
    });
  }

  /** Stops a removal in progress before its next segment, and waits until it has ended. */
  async close(): Promise<void> {
    this.ending.abort(new Error('The storage is closed.'));
    await this.removing;
  }

  /**
   * Runs a removal after all earlier ones have ended, because each removal rewrites segments (files of index lines).
   */
  private inTurn<T>(work: () => Promise<T>): Promise<T> {
    const done = this.removing.then(() => {
      this.ending.signal.throwIfAborted();
      return work();
    });
    this.removing = done.catch(() => undefined);
    return done;
  }

  private async findLine(uploadId: string, memory?: LineMemory): Promise<FoundLine | undefined> {
    const found = await this.search.find(uploadId, memory);
    this.store.presence.assertHere();
    return found;
  }

  /** Completes the removals that failed before. */
  private async resumeRemovals(): Promise<ResumedRemovals> {
    this.store.presence.assertHere();
    return completeRemovals(this.store, await this.store.markers.ids());
  }

  private async prepare(purge: boolean, rotate: boolean): Promise<void> {
    this.store.presence.assertHere();
    await this.settle(purge, rotate);
    await this.clearOffsets();
  }

  /**
   * Sets the offsets in the markers of failed uploads to 0. If lines before an upload's line are removed from its
   * segment, the line moves to a lower offset than the marker says.
   */
  private async clearOffsets(): Promise<void> {
    const { markers } = this.store;
    for (const id of await markers.ids()) {
      const marker = await markers.read(id);
      if (marker && 'content_path' in marker && marker.offset > 0 && !this.store.openSegments.has(marker.segment)) await markers.replace(id, { ...marker, offset: 0 });
    }
  }

  /**
   * Paths, relative to the store's root, of the segments (files of index lines) that may have uploads which a filter
   * selects.
   */
  private async segmentsOf({ kind, from, to }: UploadFilter): Promise<string[]> {
    const kinds: readonly UploadKind[] = kind ? [kind] : UPLOAD_KINDS;
    const paths: string[] = [];
    for (const day of [...(await this.segments.days(kinds))].reverse()) {
      const begin = Date.parse(day);
      if ((to && begin >= to.getTime()) || (from && begin + DAY_MS <= from.getTime())) continue;
      for (const each of kinds) paths.push(...(await this.segments.of(each, day)));
    }
    return paths;
  }

  private async selected(path: string, filter: UploadFilter): Promise<RemovedUpload[]> {
    const segment = await this.segments.open(path);
    if (!segment) return [];
    try {
      const removed: RemovedUpload[] = [];
      for await (const line of linesOf(segment, path, filter.customerId)) {
        const upload = await decodeIndexLine(line);
        if (upload && isSelected(upload, filter)) removed.push(removedUpload(upload));
      }
      return removed;
    } finally {
      await segment.close();
    }
  }
}

/** The valid index lines of a segment; if a customer is given, only those of the customer's uploads. */
async function* linesOf(segment: SegmentReader, path: string, customerId: string | undefined): AsyncGenerator<Buffer> {
  const kind = UPLOAD_KINDS.find((each) => path.includes(`/kind=${each}/`)) ?? 'historical';
  const isWanted = customerId === undefined ? () => true : isOfCustomer(kind, customerId);
  for (let end = segment.length; end > 0; ) {
    const { begin, lines } = await segment.linesBefore(end);
    for (const { bytes } of lines) if ((await isWanted(bytes)) && (await headOf(bytes))) yield bytes;
    end = begin;
  }
}

/**
 * Whether one of the resumed removals has removed the upload with an id, and the caller may access the upload's
 * customer. If that removal has failed again, throws its error.
 */
function isCompleted({ completed, failed }: ResumedRemovals, uploadId: string, mayAccess: CustomerAccess): boolean {
  const isWanted = (upload: RemovedUpload): boolean => upload.uploadId === uploadId && upload.customerId !== undefined && mayAccess(upload.customerId);
  for (const { list, error } of failed) if (list?.uploads.some(isWanted)) throw error;
  return completed.some(({ uploads }) => uploads.some(isWanted));
}

/** Whether a removal list may have uploads of a customer; if no customer is given, of any customer. */
const mayHaveUploadsOf = (list: RemovalList | undefined, customerId: string | undefined): boolean =>
  !list || customerId === undefined || list.uploads.some((upload) => upload.customerId === undefined || upload.customerId === customerId);

const removedUpload = (upload: Upload): RemovedUpload => ({
  uploadId: upload.uploadId,
  customerId: upload.customerId,
  receivedAt: upload.receivedAt.toISOString(),
  contentPath: upload.content?.path ?? null,
  scope: idempotencyScope(upload),
});
