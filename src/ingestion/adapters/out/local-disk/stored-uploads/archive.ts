import { DAY_MS } from '../../../../../common/durations.js';
import { OneAtATime } from '../../../../../common/one-at-a-time.js';
import type { FoundLine } from '../../../../application/found-line.js';
import type { ByteRange, CustomerAccess, LineMemory, RemovalOptions, UploadFilter, UploadPage, UploadPosition } from '../../../../application/ports/stored-uploads.port.js';
import { contentDirectory, customerDirectory, kindOf } from '../../../../domain/layout.js';
import { UPLOAD_ID } from '../../../../domain/layout-names.js';
import { hasValidTime, UPLOAD_KINDS, type Upload, type UploadKind } from '../../../../domain/upload.js';
import { unlessAbsent } from '../disk-error.js';
import type { StoreDirectory } from '../store-directory.js';
import { EmptiedSegments } from './emptied-segments.js';
import { FileBytes } from './file-bytes.js';
import { completeRemovals, removeUploads, type UploadGroups } from './removal.js';
import { removedUpload, type RemovedUpload } from './removal-list.js';
import { isCompleted, mayHaveUploadsOf, type ResumedRemovals } from './resumed-removals.js';
import { idOf } from './line-head.js';
import { countSelected, hasSelected, linesOf, selectedGroups } from './selected-uploads.js';
import { UploadList } from './upload-list.js';
import { UploadSearch } from './upload-search.js';

const MAX_AT_ONCE = 1_000;

interface RemovableUpload {
  readonly segment: string;
  readonly upload: RemovedUpload & { readonly customerId: string };
  readonly isInJournal: boolean;
}

/** Uploads of one segment that are removed together, with one rewrite of the segment. */
interface Batch {
  readonly segment: string;
  readonly uploads: Map<string, RemovedUpload>;
  isInJournal: boolean;
  /** The lowest value that `Archive.removals` had before one of the batch's uploads was searched for. */
  removals: number;
  readonly done: Promise<RemovedBatch>;
}

/** A removal of all uploads that a filter selects. */
interface RemovalOfAll {
  readonly paths: readonly string[];
  /** Undefined if the uploads are only counted. */
  resumed: ResumedRemovals | undefined;
  /** The value of `Archive.removals` at the end of its last turn. */
  removals: number;
}

interface RemovedBatch {
  /** The ids of the removed uploads. The caller that reports its upload's removal takes the id out. */
  readonly removed: Set<string>;
  readonly resumed: ResumedRemovals;
}

/**
 * The part of an open store that finds, lists, reads and removes stored uploads. Its errors, such as StoreAwayError,
 * aren't converted to ServiceError yet.
 */
export class Archive {
  private readonly search: UploadSearch;
  /**
   * Runs one turn of a removal at a time, because each rewrites segments (files of index lines). A removal of all
   * selected uploads has a turn for each segment.
   */
  private readonly removing = new OneAtATime();
  /** How many removals may have removed lines so far. Each is counted when it has ended, even if it has failed. */
  private removals = 0;
  private readonly batches = new Map<string, Batch>();
  private readonly ofAll = new Set<Promise<number>>();
  private readonly ending = new AbortController();
  private readonly emptied: EmptiedSegments;

  constructor(
    private readonly store: StoreDirectory,
    /**
     * Waits until no upload in progress and no journal refers to a closed segment. First closes the open segments of
     * the kinds in `rotate`.
     *
     * @param purge whether to also remove the journals, which have copies of small files.
     */
    private readonly settle: (purge: boolean, rotate: readonly UploadKind[]) => Promise<void>,
    private readonly mostSmallBytes: number,
  ) {
    this.search = new UploadSearch(store.segments);
    this.emptied = new EmptiedSegments(store, (work) => this.inTurn(work));
  }

  async find(uploadId: string, memory?: LineMemory): Promise<Upload | undefined> {
    const upload = (await this.findLine(uploadId, memory))?.upload;
    return upload && hasValidTime(upload) ? upload : undefined;
  }

  async list(filter: UploadFilter, limit: number, after?: UploadPosition, memory?: LineMemory): Promise<UploadPage> {
    const page = await new UploadList(this.store.segments, filter, limit, after, memory).page();
    // `assertHere` throws if the store's volume went away while the index was read: then the store looked empty.
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

  async remove(uploadId: string, mayAccess: CustomerAccess = () => true): Promise<boolean> {
    const { removals } = this;
    // The search isn't part of the removal's turn: for an unknown id it may read a whole day, and others would wait.
    const found = await this.findRemovable(uploadId);
    if (!found) return isCompleted(await this.inTurn(() => this.resumeRemovals()), uploadId, mayAccess);
    if (!mayAccess(found.upload.customerId)) return false;
    const { removed, resumed } = await this.removeWithOthers(found, removals);
    // Of several callers that remove the same upload in one batch, only the first gets true.
    return removed.delete(uploadId) || isCompleted(resumed, uploadId, mayAccess);
  }

  removeAll(filter: UploadFilter, options: RemovalOptions): Promise<number> {
    const removal = this.removeSegmentBySegment(filter, options);
    this.ofAll.add(removal);
    return removal.finally(() => this.ofAll.delete(removal));
  }

  private async removeSegmentBySegment(filter: UploadFilter, options: RemovalOptions): Promise<number> {
    const { dryRun = false, onProgress = () => undefined, signal } = options;
    const removal = await this.inTurn(() => {
      signal?.throwIfAborted();
      return this.beginRemoval(filter, dryRun);
    });
    const errors: unknown[] = [];
    let uploads = 0;
    for (const [index, path] of removal.paths.entries()) {
      // Each segment has a turn of its own, so that the removal of one upload needn't wait for all segments.
      uploads += await this.inTurn(async () => {
        signal?.throwIfAborted();
        await this.resumeOthers(removal);
        const removed = await this.removeSelected(path, filter, removal.resumed).catch((error: unknown) => {
          this.store.logger.warn(`${dryRun ? 'Counting' : 'Removing'} uploads of ${path} failed; going on with the other segments.`, error);
          errors.push(error);
          return 0;
        });
        removal.removals = this.removals;
        this.store.presence.assertHere();
        return removed;
      });
      onProgress({ segments: index + 1, allSegments: removal.paths.length, uploads });
    }
    this.store.presence.assertHere();
    // If a removal has failed again, only its error shows that files may be left: their lines may be gone.
    for (const { list, error } of removal.resumed?.failed ?? []) if (mayHaveUploadsOf(list, filter.customerId)) errors.push(error);
    if (errors.length > 0) throw errors[0];
    // Also if the store is being closed, because the uploads are gone.
    if (!dryRun) await this.removing.run(() => this.removeEmptyDirectoriesOf(filter));
    return uploads;
  }

  private async beginRemoval(filter: UploadFilter, dryRun: boolean): Promise<RemovalOfAll> {
    const resumed = dryRun ? undefined : await this.resumeRemovals();
    // The segments are listed before `prepare` closes the open ones. A segment that is opened later must be left
    // alone, because the marker of an upload in progress may refer to it.
    let paths = await this.segmentsOf(filter);
    if (!dryRun) {
      // An open segment without selected uploads stays open: closing it early would mean one more segment to search.
      const unaffected = await this.unaffected(paths.filter((path) => this.store.openSegments.has(path)), filter);
      paths = paths.filter((path) => !unaffected.has(path));
      if (paths.length > 0) await this.prepare(true, this.kindsOfOpen(paths));
    }
    return { paths, resumed, removals: this.removals };
  }

  /** Completes what other removals have left since the last turn of this one. */
  private async resumeOthers(removal: RemovalOfAll): Promise<void> {
    if (removal.resumed && removal.removals !== this.removals) removal.resumed = await this.resumeRemovals();
  }

  private async removeSelected(path: string, filter: UploadFilter, resumed: ResumedRemovals | undefined): Promise<number> {
    if (!resumed) return countSelected(this.store, path, filter);
    if (!(await hasSelected(this.store, path, filter))) return 0;
    await this.assertRewritable(path, resumed);
    return this.removeUploads(path, selectedGroups(this.store, path, filter));
  }

  /** Stops removals in progress before their next segment, and waits until they have ended. */
  async close(): Promise<void> {
    this.ending.abort(new Error('The storage is closed.'));
    await Promise.all([this.emptied.close(), this.removing.run(() => Promise.resolve()), Promise.allSettled(this.ofAll)]);
  }

  private inTurn<T>(removal: () => Promise<T>): Promise<T> {
    return this.removing.run(() => {
      this.ending.signal.throwIfAborted();
      return this.store.reserve.whileRemoving(removal);
    });
  }

  private async findLine(uploadId: string, memory?: LineMemory): Promise<FoundLine | undefined> {
    const found = await this.search.find(uploadId, memory);
    this.store.presence.assertHere();
    return found;
  }

  /** Returns only what the removal needs, because the upload's `additional_data` may be long. */
  private async findRemovable(uploadId: string): Promise<RemovableUpload | undefined> {
    const found = await this.findLine(uploadId);
    return found && { segment: found.segment, upload: removedUpload(found.upload), isInJournal: (found.upload.content?.size ?? Infinity) <= this.mostSmallBytes };
  }

  private removeWithOthers({ segment, upload, isInJournal }: RemovableUpload, removals: number): Promise<RemovedBatch> {
    let batch = this.batches.get(segment);
    if (!batch || batch.uploads.size >= MAX_AT_ONCE) {
      const begun: Batch = { segment, uploads: new Map(), isInJournal: false, removals, done: this.inTurn(() => this.removeBatch(begun)) };
      this.batches.set(segment, (batch = begun));
    }
    batch.uploads.set(upload.uploadId, upload);
    batch.isInJournal ||= isInJournal;
    batch.removals = Math.min(batch.removals, removals);
    return batch.done;
  }

  private async removeBatch(batch: Batch): Promise<RemovedBatch> {
    const { segment, uploads } = batch;
    if (this.batches.get(segment) === batch) this.batches.delete(segment);
    const resumed = await this.resumeRemovals();
    const ids = new Set(uploads.keys());
    const removed = batch.removals === this.removals ? ids : await this.left(segment, ids);
    if (removed.size > 0) {
      await this.assertRewritable(segment, resumed);
      await this.prepare(batch.isInJournal, this.kindsOfOpen([segment]));
      await this.removeUploads(segment, [[...uploads.values()].filter(({ uploadId }) => removed.has(uploadId))]);
    }
    return { removed, resumed };
  }

  /**
   * Throws the error of an earlier removal that has failed again, if some of its lines are still in the segment.
   * Another removal would fail too, and leave one more list to be completed later.
   */
  private async assertRewritable(segment: string, { failed }: ResumedRemovals): Promise<void> {
    for (const { list, error } of failed) {
      if (list?.segment !== segment) continue;
      if ((await this.left(segment, new Set(list.uploads.map(({ uploadId }) => uploadId)))).size > 0) throw error;
    }
  }

  private async left(segment: string, uploadIds: ReadonlySet<string>): Promise<Set<string>> {
    const left = new Set<string>();
    for await (const line of linesOf(this.store, segment)) {
      const uploadId = await idOf(line);
      if (uploadId !== undefined && uploadIds.has(uploadId)) left.add(uploadId);
      if (left.size === uploadIds.size) break;
    }
    this.store.presence.assertHere();
    return left;
  }

  private async unaffected(paths: readonly string[], filter: UploadFilter): Promise<Set<string>> {
    const unaffected = new Set<string>();
    for (const path of paths) if (!(await hasSelected(this.store, path, filter))) unaffected.add(path);
    return unaffected;
  }

  private kindsOfOpen(paths: readonly string[]): UploadKind[] {
    const open = paths.filter((path) => this.store.openSegments.has(path)).map(kindOf);
    return UPLOAD_KINDS.filter((kind) => open.includes(kind));
  }

  private async resumeRemovals(): Promise<ResumedRemovals> {
    this.store.presence.assertHere();
    const resumed = await completeRemovals(this.store, await this.store.markers.ids());
    if (resumed.completed.length > 0 || resumed.failed.length > 0) this.removals += 1;
    return resumed;
  }

  /** Removes the empty directories of a customer, durably. Uploads that a crash interrupted may have left some. */
  private async removeEmptyDirectoriesOf({ kind, customerId }: UploadFilter): Promise<void> {
    if (customerId === undefined) return;
    const { disk, directories } = this.store;
    for (const each of kind ? [kind] : UPLOAD_KINDS) {
      const directory = customerDirectory(each, customerId);
      const names = (await unlessAbsent(disk.readDirectory(this.store.at(directory)))) ?? [];
      for (const name of names) if (name.startsWith('date=')) await directories.removeEmpty(this.store.at(directory, name));
      await unlessAbsent(directories.sync(this.store.at(directory)));
      await directories.removeEmpty(this.store.at(directory));
      await directories.sync(this.store.at(contentDirectory(each)));
    }
    this.store.presence.assertHere();
  }

  private async removeUploads(segment: string, groups: UploadGroups): Promise<number> {
    try {
      return await removeUploads(this.store, segment, groups);
    } finally {
      this.removals += 1;
    }
  }

  private async prepare(purge: boolean, rotate: readonly UploadKind[]): Promise<void> {
    this.store.presence.assertHere();
    await this.settle(purge, rotate);
    await this.clearOffsets();
  }

  /**
   * Sets the offsets in the markers of uploads to 0: a removal moves lines to lower offsets. Leaves out the markers of
   * open segments, which no removal rewrites.
   */
  private async clearOffsets(): Promise<void> {
    const { markers } = this.store;
    for (const id of await markers.ids()) {
      const marker = UPLOAD_ID.test(id) && (await markers.read(id));
      if (marker && 'content_path' in marker && marker.offset > 0 && !this.store.openSegments.has(marker.segment)) await markers.replace(id, { ...marker, offset: 0 });
    }
  }

  private async segmentsOf({ kind, from, to }: UploadFilter): Promise<string[]> {
    const kinds: readonly UploadKind[] = kind ? [kind] : UPLOAD_KINDS;
    const paths: string[] = [];
    for (const day of [...(await this.store.segments.days(kinds))].reverse()) {
      const begin = Date.parse(day);
      if ((to && begin >= to.getTime()) || (from && begin + DAY_MS <= from.getTime())) continue;
      for (const each of kinds) paths.push(...(await this.store.segments.of(each, day)));
    }
    return paths;
  }
}
