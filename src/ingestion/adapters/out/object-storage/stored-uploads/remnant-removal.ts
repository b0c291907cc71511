import { eachOf } from '../../../../../common/each-of.js';
import type { Bucket } from '../bucket.js';
import { OutboxPresence } from '../event-outbox/late-segments.js';
import { writeRemoved } from '../event-outbox/removed-uploads.js';
import { freeRemoved } from '../idempotency-claims.js';
import { newRemovalKey, type Remnant, removalBytes, removalIdOf, removedUploadsOf } from './removal-marker.js';

const REMNANTS_AT_ONCE = 1_000;

export interface Mark {
  readonly key: string;
  readonly remnants: readonly Remnant[];
}

/**
 * Removes what is left of uploads whose index lines are removed, and writes the events of the removals. Call `mark`
 * before the lines are removed, so that a sweeper can finish the work after a crash.
 *
 * @throws errors of the bucket, from each method.
 */
export class RemnantRemoval {
  private readonly outbox: OutboxPresence;

  constructor(private readonly bucket: Bucket) {
    this.outbox = new OutboxPresence(bucket);
  }

  /** The present time, for the events of a removal; undefined if the event outbox was never opened: no events then. */
  async eventTime(): Promise<Date | undefined> {
    return (await this.outbox.isBegun()) ? new Date(this.bucket.now) : undefined;
  }

  /** Writes markers (objects in `staging/`), each of which lists the remnants of at most 1,000 uploads. */
  async mark(remnants: readonly Remnant[]): Promise<Mark[]> {
    const marks: Mark[] = [];
    for (let at = 0; at < remnants.length; at += REMNANTS_AT_ONCE) {
      const mark = { key: newRemovalKey(this.bucket.now), remnants: remnants.slice(at, at + REMNANTS_AT_ONCE) };
      if ((await this.bucket.create(mark.key, removalBytes(mark.remnants))) === undefined) throw new Error(`${mark.key} exists already.`);
      marks.push(mark);
    }
    return marks;
  }

  /**
   * Removes what is left of uploads whose lines are gone, writes the events, then removes the markers.
   *
   * @param hasEvent whether this process, or the crashed one whose removal it completes, has removed the upload's line.
   */
  async conclude(marks: readonly Mark[], hasEvent: (remnant: Remnant) => boolean = () => true): Promise<void> {
    for (const { key, remnants } of marks) {
      await this.clear(remnants);
      const removed = removedUploadsOf(remnants.filter(hasEvent));
      if (removed.length > 0) await writeRemoved(this.bucket, removalIdOf(key), removed);
    }
    if (marks.length > 0) await this.bucket.remove(marks.map(({ key }) => key));
  }

  async clear(remnants: readonly Remnant[]): Promise<void> {
    const paths = remnants.flatMap(({ content_path: path }) => path ?? []);
    if (paths.length > 0) await this.bucket.remove(paths);
    await eachOf(remnants, async ({ upload_id: uploadId, claim }) => {
      if (claim !== null) await freeRemoved(this.bucket, claim, uploadId);
    });
  }
}
