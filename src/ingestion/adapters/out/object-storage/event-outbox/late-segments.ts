import { z } from 'zod';
import { MINUTE_MS } from '../../../../../common/durations.js';
import { parseJson } from '../../../../../common/text.js';
import { uuidAt } from '../../../../../common/uuid.js';
import type { Bucket } from '../bucket.js';
import { CURSOR, LATE_SEGMENTS } from '../keys.js';
import { dayOf, parseName } from '../segment-names.js';
import { isTimed } from './cursor.js';

/** A segment written longer than this before or after the time in its name must be announced. */
export const MAX_LATE_MS = 40_000;
/** A segment that is already this late is announced before its write: a crash could prevent a later announcement. */
const SOON_LATE_MS = 20_000;
const ANNOUNCED_FOR_MS = 5 * MINUTE_MS;
/** How long the event outbox waits for an announced segment before it searches for the uploads by their ids. */
export const ANNOUNCEMENT_AGE_MS = 15 * MINUTE_MS;

const LATE_SEGMENT = z.object({ segment: z.string(), upload_ids: z.array(z.string()) });
export type LateSegment = Readonly<z.infer<typeof LATE_SEGMENT>>;

/** Parses an announcement in `events/late/`; undefined if the bytes are anything else. */
export const parseLateSegment = (bytes: Buffer): LateSegment | undefined => LATE_SEGMENT.safeParse(parseJson(bytes)).data;

/** Finds out whether the event outbox of a bucket was ever opened, that is, whether the bucket has a cursor. */
export class OutboxPresence {
  private hasBegun = false;

  constructor(private readonly bucket: Bucket) {}

  async isBegun(): Promise<boolean> {
    if (!this.hasBegun) this.hasBegun = (await this.bucket.read(CURSOR)) !== undefined;
    return this.hasBegun;
  }
}

/**
 * Announces segments, in `events/late/`, that the process that delivers events would otherwise miss: those of slow
 * uploads, and those written long before or after the time in the segment's name. Announces nothing if the event outbox
 * was never opened.
 */
export class LateSegments {
  private readonly outbox: OutboxPresence;

  constructor(private readonly bucket: Bucket) {
    this.outbox = new OutboxPresence(bucket);
  }

  /**
   * Writes a segment by calling `write`, and announces the segment if it is late or of a slow upload.
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
   * Announces a segment that another process wrote late and, because of a crash, may not have announced.
   *
   * @param ageMs milliseconds since the segment was written, by the store's clock.
   * @throws errors of the bucket.
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

  private async announce(segment: string, uploadIds: readonly string[]): Promise<number | undefined> {
    if (!(await this.outbox.isBegun())) return undefined;
    const { storeTime } = this.bucket;
    const content: LateSegment = { segment, upload_ids: [...uploadIds] };
    const key = LATE_SEGMENTS + uuidAt(new Date(storeTime));
    if ((await this.bucket.create(key, Buffer.from(JSON.stringify(content)))) === undefined) throw new Error(`${key} exists already.`);
    return storeTime;
  }
}
