import type { Bucket } from '../bucket.js';
import { TellingState } from '../event-outbox/late-segments.js';
import { writeRemoved } from '../event-outbox/removed-uploads.js';
import { freeRemoved } from '../idempotency-claims.js';
import { eachOf } from './each-of.js';
import { newRemovalKey, type Remnant, removalBytes, removalIdOf, toldOf } from './removal-marker.js';

const REMNANTS_AT_ONCE = 1_000;

/** The key of a marker of removals, and the remnants that it lists. */
export interface Mark {
  readonly key: string;
  readonly remnants: readonly Remnant[];
}

/**
 * Removes what is left of uploads when their index lines are removed, and writes the events of the removals. Before the
 * lines are removed, `mark` lists what will be left and the events in markers, so that a sweeper can finish the work
 * after a crash. Calls reject with errors of the bucket.
 */
export class RemnantRemoval {
  private readonly telling: TellingState;

  constructor(private readonly bucket: Bucket) {
    this.telling = new TellingState(bucket);
  }

  /**
   * The time for the events of a removal, from the present; undefined if the event outbox was never opened, so that no
   * events are to be delivered.
   */
  async timeToTell(): Promise<Date | undefined> {
    return (await this.telling.isBegun()) ? new Date(this.now()) : undefined;
  }

  /** Writes a marker that lists what will be left of the uploads, or several markers if there are many uploads. */
  async mark(remnants: readonly Remnant[]): Promise<Mark[]> {
    const marks: Mark[] = [];
    for (let at = 0; at < remnants.length; at += REMNANTS_AT_ONCE) {
      const mark = { key: newRemovalKey(this.now()), remnants: remnants.slice(at, at + REMNANTS_AT_ONCE) };
      if ((await this.bucket.create(mark.key, removalBytes(mark.remnants))) === undefined) throw new Error(`${mark.key} exists.`);
      marks.push(mark);
    }
    return marks;
  }

  /**
   * Ends removals whose lines are gone: removes what is left of their uploads, writes the events, and then removes the
   * markers.
   *
   * @param isTold whether an upload's event is written: true if this process, or the crashed one whose removal it
   *   completes, has removed the upload's line.
   */
  async conclude(marks: readonly Mark[], isTold: (remnant: Remnant) => boolean = () => true): Promise<void> {
    for (const { key, remnants } of marks) {
      await this.clear(remnants);
      const removed = toldOf(remnants.filter(isTold));
      if (removed.length > 0) await writeRemoved(this.bucket, removalIdOf(key), removed);
    }
    if (marks.length > 0) await this.bucket.remove(marks.map(({ key }) => key));
  }

  /** Removes what is left of uploads whose lines are gone: their files and claims. */
  async clear(remnants: readonly Remnant[]): Promise<void> {
    const paths = remnants.flatMap(({ content_path: path }) => path ?? []);
    if (paths.length > 0) await this.bucket.remove(paths);
    await eachOf(remnants, async ({ upload_id: uploadId, claim }) => {
      if (claim !== null) await freeRemoved(this.bucket, claim, uploadId);
    });
  }

  /** The present time in milliseconds since 1970, by the store's clock if it differs by minutes from this machine's. */
  private now(): number {
    return Date.now() + this.bucket.clockOffsetMs;
  }
}
