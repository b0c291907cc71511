import { DAY_MS } from '../../../../../common/durations.js';
import { eachOf } from '../../../../../common/each-of.js';
import { OneAtATime } from '../../../../../common/one-at-a-time.js';
import { MIB } from '../../../../../common/sizes.js';
import type { FoundLine } from '../../../../application/found-line.js';
import type { CustomerAccess, RemovalOptions, UploadFilter } from '../../../../application/ports/stored-uploads.port.js';
import type { StorageLogger } from '../../../../application/storage-logger.js';
import { isSelected } from '../../../../domain/upload-filter.js';
import { UPLOAD_KINDS, type Upload } from '../../../../domain/upload.js';
import { type Bucket, type ListedObject, StoreSilentError } from '../bucket.js';
import { copiedSegments } from '../compaction-plan.js';
import { MARKERS, MAX_MARKER_BYTES } from '../keys.js';
import { LOST_AFTER_MS } from '../lease.js';
import { readAhead } from '../read-ahead.js';
import { type Day, dayOf, directoryOf, endOf } from '../segment-names.js';
import { DayHold, HoldLostError } from './day-hold.js';
import { daysOf, laterSegments, mayBeCompacted } from './day-listing.js';
import { markedSegments } from './marked-segments.js';
import { RemnantRemoval } from './remnant-removal.js';
import { isRemovalKey, parseRemoval, type Remnant, remnantOf } from './removal-marker.js';
import { linesIn } from './line-reading.js';
import { rewrite, type Rewriting, withoutLines } from './segment-rewriting.js';
import { findLine } from './upload-search.js';

const MAX_ROUNDS = 10;
const MAX_SEGMENTS = 500;
const MAX_BYTES = 8 * MIB;

/**
 * Removes uploads. Any number of processes may remove uploads at once, and each may crash or stall at any step:
 *
 * 1. Keep compaction from the day (`DayHold`), if compaction may have begun there.
 * 2. Write a marker that names the files, claims and segments of the uploads, and the data of the events. It leaves out
 *    uploads without any file, claim or event. The removal of a single upload takes this step before step 1.
 * 3. Rewrite the segments without the lines of the uploads, each in one request. A segment without any other line
 *    becomes empty. If it is older than 24 hours, it is removed instead, because no late request of its writer can then
 *    create it again.
 * 4. Check the hold. If it was lost, compaction may have restored a line from a copy, so remove the lines again.
 * 5. Remove the files and free the claims.
 * 6. Write the events of the removals to `events/removed/`, if the event outbox was ever opened, and remove the marker.
 *
 * If the process crashes after step 2, the sweeper of any process removes the uploads that the marker names.
 */
export class UploadRemoval {
  private readonly remnantRemoval: RemnantRemoval;
  /** Removals of single uploads take turns: they compete for a day's hold, and each keeps up to 64 MiB in memory. */
  private readonly rewrites = new OneAtATime();
  private silence: StoreSilentError | undefined;

  constructor(
    private readonly bucket: Bucket,
    private readonly logger: StorageLogger,
  ) {
    this.remnantRemoval = new RemnantRemoval(bucket);
  }

  /**
   * Removes the upload with an id, or what an earlier removal has left of it. Resolves to false if there is nothing to
   * remove, if the caller may not access the upload's customer, or if another process has just removed the line.
   *
   * @throws errors of the bucket.
   */
  async remove(uploadId: string, mayAccess: CustomerAccess = () => true): Promise<boolean> {
    const found = await findLine(this.bucket, uploadId);
    if (!found) {
      const isWanted = ({ upload_id: id, customer_id: customerId }: Remnant): boolean => id === uploadId && customerId !== undefined && mayAccess(customerId);
      return (await this.clearRemnants(isWanted)) > 0;
    }
    if (!mayAccess(found.upload.customerId)) return false;
    const { marks, isRemoved } = await this.inTurn(async () => {
      // The marker is written only in this removal's turn, because sweepers take a removal for crashed when its marker
      // is a minute old.
      const remnant = remnantOf(found.upload, found.segment, await this.remnantRemoval.eventTime());
      const written = await this.remnantRemoval.mark(remnant ? [remnant] : []);
      return { marks: written, isRemoved: await this.removeLine(found, dayOf(found.segment)) };
    });
    await this.remnantRemoval.conclude(marks, () => isRemoved);
    return isRemoved;
  }

  /** Runs removals of single uploads one at a time. If the store is silent, the waiting ones fail at once. */
  private inTurn<T>(removal: () => Promise<T>): Promise<T> {
    const before = this.silence;
    return this.rewrites.run(async () => {
      if (this.silence && this.silence !== before) throw this.silence;
      try {
        return await removal();
      } catch (error) {
        if (error instanceof StoreSilentError) this.silence = error;
        throw error;
      }
    });
  }

  /**
   * Completes a removal of uploads that a crashed process left unfinished, unless its marker is younger than a minute
   * by the store's clock.
   *
   * @param key the key of the marker.
   * @returns false if the marker is malformed; then nothing was done.
   * @throws errors of the bucket.
   */
  async resume(key: string): Promise<boolean> {
    const found = await this.bucket.read(key);
    if (!found || found.ageMs < LOST_AFTER_MS) return true;
    const remnants = parseRemoval(found.bytes);
    if (!remnants) return false;
    const settled = await this.removeMarkedLines(remnants);
    await eachOf(remnants, async ({ upload_id: uploadId }) => { if (!settled.has(uploadId)) await this.removeCopies(uploadId); });
    await this.remnantRemoval.conclude([{ key, remnants }]);
    return true;
  }

  /**
   * Removes all uploads that a filter selects, at least those that were acknowledged before the call. Then removes the
   * remnants of earlier removals, whatever the filter's kind and times: those of the filter's customer and of unknown
   * customers, or of all customers if the filter has none. Resolves to the number of removed uploads, without those of
   * earlier removals. With `dryRun`, removes nothing, and counts the uploads that would be removed.
   *
   * @throws errors of the bucket; the reason of the signal.
   */
  async removeAll(filter: UploadFilter, { dryRun = false, onProgress, signal }: RemovalOptions = {}): Promise<number> {
    signal?.throwIfAborted();
    const days = await Promise.all((await this.days(filter)).map(async (day) => ({ day, isLater: await laterSegments(this.bucket, day) })));
    const removedAt = dryRun ? undefined : await this.remnantRemoval.eventTime();
    const progress = { segments: 0, allSegments: 0, uploads: 0 };
    if (onProgress) for (const { day, isLater } of days) for await (const segments of this.batches(day, isLater)) progress.allSegments += segments.length;
    for (const { day, isLater } of days) {
      await this.held(dryRun ? undefined : day, async (hold) => {
        for await (const segments of this.batches(day, isLater, dryRun)) {
          signal?.throwIfAborted();
          const onRemoved = (count: number): void => void (progress.uploads += count);
          await this.removeFrom(segments, { filter, dryRun, hold, signal, removedAt, onRemoved });
          progress.segments += segments.length;
          progress.allSegments = Math.max(progress.allSegments, progress.segments);
          onProgress?.({ ...progress });
        }
      });
    }
    const isLeft = ({ customer_id: customerId, content_path: path, claim }: Remnant): boolean =>
      (path ?? claim) !== null && (customerId === undefined || filter.customerId === undefined || customerId === filter.customerId);
    if (!dryRun) await this.clearRemnants(isLeft);
    onProgress?.({ ...progress });
    return progress.uploads;
  }

  /** Clears remnants, but leaves their markers, and so the events, to the process of the removal or the sweeper. */
  private async clearRemnants(isWanted: (remnant: Remnant) => boolean): Promise<number> {
    let count = 0;
    for await (const { key, size } of this.bucket.list(MARKERS)) {
      const found = isRemovalKey(key) && size <= MAX_MARKER_BYTES ? await this.bucket.read(key) : undefined;
      const gone = await this.withoutLine(((found && parseRemoval(found.bytes)) ?? []).filter(isWanted));
      await this.remnantRemoval.clear(gone);
      count += gone.length;
    }
    return count;
  }

  private async withoutLine(remnants: readonly Remnant[]): Promise<readonly Remnant[]> {
    const present = new Set<string>();
    const settled = new Set<string>();
    await eachOf(markedSegments(remnants).flat(), async ({ key, day, ids }) => {
      const segment = await this.bucket.read(key);
      if (!segment) return;
      for await (const { upload } of linesIn(segment.bytes)) if (ids.has(upload.uploadId)) present.add(upload.uploadId);
      if (!mayBeCompacted(this.bucket, day)) for (const id of ids) settled.add(id);
    });
    const gone: Remnant[] = [];
    await eachOf(remnants, async (remnant) => {
      const { upload_id: uploadId } = remnant;
      if (!present.has(uploadId) && (settled.has(uploadId) || !(await findLine(this.bucket, uploadId)))) gone.push(remnant);
    });
    return gone;
  }

  /**
   * Removes lines from the segments that a marker names: a search might miss a segment with a foreign name.
   *
   * @returns the ids of the uploads that needn't be searched for: their segments exist, and compaction of the day can't
   *   have begun.
   */
  private async removeMarkedLines(remnants: readonly Remnant[]): Promise<ReadonlySet<string>> {
    const settled = new Set<string>();
    for (const segments of markedSegments(remnants)) {
      await this.held(segments[0]?.day, async (hold) => {
        await eachOf(segments, async ({ key, day, ids }) => {
          const removed = await this.removeFromSegment(key, ids);
          if (removed !== undefined && !mayBeCompacted(this.bucket, day)) for (const id of ids) settled.add(id);
        });
        await hold?.check();
      });
    }
    return settled;
  }

  private async days({ kind, from, to }: UploadFilter): Promise<Day[]> {
    const days = await Promise.all((kind ? [kind] : UPLOAD_KINDS).map((each) => daysOf(this.bucket, each)));
    return days.flat().filter((day) => endOf(day) > (from?.getTime() ?? -Infinity) && endOf(day) - DAY_MS < (to?.getTime() ?? Infinity));
  }

  /**
   * Yields the non-empty segments of a day in batches, without those that uploads create meanwhile. So the batches end,
   * although a listing of a busy day may not.
   *
   * @param isLater the result of `laterSegments`.
   * @param isMoving whether compaction may go on meanwhile, as in a dry run. Segments whose lines compaction has
   *   already copied are then left out, so that no line counts twice.
   */
  private async *batches(day: Day, isLater: (key: string) => boolean, isMoving = false): AsyncGenerator<ListedObject[]> {
    const copied = isMoving ? await copiedSegments(this.bucket, day) : undefined;
    let batch: ListedObject[] = [];
    let bytes = 0;
    for await (const segment of this.bucket.list(directoryOf(day))) {
      if (segment.size === 0 || copied?.has(segment.key) || isLater(segment.key)) continue;
      if (batch.length > 0 && (batch.length === MAX_SEGMENTS || bytes + segment.size > MAX_BYTES)) {
        yield batch;
        batch = [];
        bytes = 0;
      }
      batch.push(segment);
      bytes += segment.size;
    }
    if (batch.length > 0) yield batch;
  }

  private async held(day: Day | undefined, action: (hold?: DayHold) => Promise<void>): Promise<void> {
    for (let round = 0; round < MAX_ROUNDS; round++) {
      const hold = day && mayBeCompacted(this.bucket, day) ? await DayHold.take(this.bucket, day, this.logger) : undefined;
      try {
        await action(hold);
        return;
      } catch (error) {
        if (!(error instanceof HoldLostError)) throw error;
      } finally {
        // A hold whose release fails expires after ten minutes.
        await hold?.release().catch(() => undefined);
      }
    }
    throw new Error('The hold on a day was lost again and again.');
  }

  private async removeFrom(segments: readonly ListedObject[], { filter, dryRun, hold, signal, removedAt, onRemoved }: BatchRemoval): Promise<void> {
    const isWanted = (upload: Upload): boolean => isSelected(upload, filter);
    const rewritings: Rewriting[] = [];
    const remnants: Remnant[] = [];
    let isMissed = false;
    for await (const [{ key }, object] of readAhead(this.bucket, segments, signal)) {
      isMissed ||= !object;
      const onSelected = (upload: Upload): void => {
        const remnant = dryRun ? undefined : remnantOf(upload, key, removedAt);
        if (remnant) remnants.push(remnant);
      };
      const rewriting = object && (await withoutLines(key, object, isWanted, onSelected));
      if (!rewriting) continue;
      if (dryRun) onRemoved(rewriting.removed.length);
      else rewritings.push(rewriting);
    }
    if (rewritings.length === 0) {
      // If a listed segment is gone and the hold was lost, compaction may have moved the segment's lines. The check
      // then fails, and the day is read again.
      if (isMissed) await hold?.check();
      return;
    }
    const marks = await this.remnantRemoval.mark(remnants);
    const gone = new Set<string>();
    const onGone = (ids: readonly string[]): void => {
      if (marks.length > 0) for (const id of ids) gone.add(id);
      onRemoved(ids.length);
    };
    // No process adds lines to an existing segment. So a segment without other lines can be removed whatever its
    // version.
    const [over, others] = [rewritings.filter(({ isOver }) => isOver), rewritings.filter(({ isOver }) => !isOver)];
    if (over.length > 0) await this.bucket.remove(over.map(({ key }) => key));
    for (const { removed } of over) onGone(removed);
    await eachOf(others, async (rewriting) => { onGone(await rewrite(this.bucket, rewriting, isWanted)); });
    try {
      await hold?.check();
    } catch (error) {
      if (!(error instanceof HoldLostError)) throw error;
      await eachOf(rewritings.flatMap(({ removed }) => removed), (uploadId) => this.removeCopies(uploadId));
      await this.remnantRemoval.conclude(marks);
      throw error;
    }
    await this.remnantRemoval.conclude(marks, ({ upload_id: uploadId }) => gone.has(uploadId));
  }

  private async removeCopies(uploadId: string): Promise<void> {
    const line = await findLine(this.bucket, uploadId);
    if (line) await this.removeLine(line, dayOf(line.segment));
  }

  private async removeLine({ upload: { uploadId }, segment }: FoundLine, day: Day | undefined): Promise<boolean> {
    const ids = new Set([uploadId]);
    let removed = 0;
    const removeFrom = async (key: string): Promise<void> => { removed += (await this.removeFromSegment(key, ids)) ?? 0; };
    await this.held(day, async (hold) => {
      if (!hold) {
        await removeFrom(segment);
        return;
      }
      // The search is repeated until no segment has the line: compaction may have moved the line before the hold was
      // taken, or a stalled writer may have written it twice.
      for (let line = await findLine(this.bucket, uploadId); line; line = await findLine(this.bucket, uploadId)) await removeFrom(line.segment);
      await hold.check();
    });
    return removed > 0;
  }

  private async removeFromSegment(key: string, ids: ReadonlySet<string>): Promise<number | undefined> {
    const isWanted = ({ uploadId }: Upload): boolean => ids.has(uploadId);
    const object = await this.bucket.read(key);
    if (!object) return undefined;
    const rewriting = await withoutLines(key, object, isWanted);
    return rewriting ? (await rewrite(this.bucket, rewriting, isWanted)).length : 0;
  }
}

interface BatchRemoval {
  readonly filter: UploadFilter;
  readonly dryRun: boolean;
  readonly hold: DayHold | undefined;
  readonly signal: AbortSignal | undefined;
  readonly removedAt: Date | undefined;
  readonly onRemoved: (count: number) => void;
}
