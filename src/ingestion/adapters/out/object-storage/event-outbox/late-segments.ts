import { z } from 'zod';
import { parseJson } from '../../../../../common/text.js';
import { uuidAt } from '../../../../../common/uuid.js';
import type { Bucket } from '../bucket.js';
import { CURSOR, LATE_SEGMENTS } from '../keys.js';
import { dayOf, parseName } from '../segment-names.js';
import { isTimed } from './cursor.js';

/**
 * The event outbox finds a segment of uploads that weren't slow by its name, without an announcement, if the segment
 * was written at most this long before or after the time in its name, in milliseconds.
 */
export const MAX_LATE_MS = 40_000;
/**
 * Just before a segment is written, the time in its name is compared with the store's time. If they differ by more than
 * this, in milliseconds, the segment is announced before the write. So is every segment of a slow upload (`isSlow`). If
 * such a segment were announced only after the write, a crash in between could hide it from the event outbox.
 */
const SOON_LATE_MS = 20_000;
/** If a segment was written longer than this after its announcement, in milliseconds, it is announced again. */
const ANNOUNCED_FOR_MS = 5 * 60_000;
/**
 * The event outbox waits this long for an announced segment to appear, in milliseconds by the store's clock. If the
 * segment is still missing then, the event outbox searches for the announced uploads by their ids.
 */
export const ANNOUNCEMENT_AGE_MS = 15 * 60_000;

const LATE_SEGMENT = z.object({ segment: z.string(), upload_ids: z.array(z.string()) });
export type LateSegment = Readonly<z.infer<typeof LATE_SEGMENT>>;

/** Parses the announcement of a late segment, an object in `events/late/`; undefined if the bytes are anything else. */
export const parseLateSegment = (bytes: Buffer): LateSegment | undefined => LATE_SEGMENT.safeParse(parseJson(bytes)).data;

/**
 * Whether the event outbox of a bucket was ever opened. If it was, `events/cursor` exists. `isBegun` reads the cursor
 * at each call until it exists.
 */
export class OutboxPresence {
  private hasBegun = false;

  constructor(private readonly bucket: Bucket) {}

  async isBegun(): Promise<boolean> {
    if (!this.hasBegun) this.hasBegun = (await this.bucket.read(CURSOR)) !== undefined;
    return this.hasBegun;
  }
}

/**
 * Announces segments that the process that delivers events would otherwise miss. Of the segments that uploads write,
 * that process lists only those of uploads that weren't slow, with times in their names from the watermark (which may
 * be only a minute ago) to a minute ahead. So the segments of slow uploads are announced, and those that are written
 * long before or after the time in their name, because the client, the store or the process was slow, or because a
 * clock is wrong. An announcement is an object in `events/late/`. Nothing is announced if the event outbox was never
 * opened.
 */
export class LateSegments {
  private readonly outbox: OutboxPresence;

  constructor(private readonly bucket: Bucket) {
    this.outbox = new OutboxPresence(bucket);
  }

  /**
   * Writes a segment by calling `write`, and announces the segment if it is late or of a slow upload. Resolves to the
   * result of `write`.
   *
   * @param write resolves to undefined if the segment was not written.
   * @throws errors of `write` and of the bucket; the segment may then have been written.
   */
  async around(segment: string, uploadIds: () => readonly string[], write: () => Promise<string | undefined>): Promise<string | undefined> {
    const announcedAt = this.isLate(segment, SOON_LATE_MS) ? await this.announce(segment, uploadIds()) : undefined;
    const written = await write();
    if (written === undefined || (announcedAt !== undefined && this.bucket.storeTime - announcedAt < ANNOUNCED_FOR_MS)) return written;
    if (announcedAt !== undefined || this.isLate(segment, MAX_LATE_MS)) await this.announce(segment, uploadIds());
    return written;
  }

  /**
   * Announces a segment that another process has written, if it was written late: that process may have crashed before
   * it announced the segment. Does nothing for a segment of a slow upload (`isSlow`), which its writer announced before
   * the write. Throws errors of the bucket.
   *
   * @param ageMs milliseconds since the segment was written, by the store's clock.
   */
  async announceWritten(segment: string, uploadId: string, ageMs: number): Promise<void> {
    const day = dayOf(segment);
    if (day && isTimed(day, segment) && this.isLate(segment, MAX_LATE_MS, ageMs)) await this.announce(segment, [uploadId]);
  }

  private isLate(segment: string, mostMs: number, ageMs = 0): boolean {
    const day = dayOf(segment);
    if (!day) return false;
    const { isSlow, time } = parseName(day, segment);
    return isSlow || Math.abs(this.bucket.storeTime - ageMs - time) > mostMs;
  }

  /**
   * Writes the announcement of a segment. Resolves to the time of the announcement by the store's clock, in
   * milliseconds since 1970. If the event outbox was never opened, writes nothing, and resolves to undefined.
   */
  private async announce(segment: string, uploadIds: readonly string[]): Promise<number | undefined> {
    if (!(await this.outbox.isBegun())) return undefined;
    const { storeTime } = this.bucket;
    const content: LateSegment = { segment, upload_ids: [...uploadIds] };
    const key = LATE_SEGMENTS + uuidAt(new Date(storeTime));
    if ((await this.bucket.create(key, Buffer.from(JSON.stringify(content)))) === undefined) throw new Error(`${key} exists already.`);
    return storeTime;
  }
}
