import { createHash } from 'node:crypto';
import { v7 } from 'uuid';
import { eachOf } from '../../../../../common/each-of.js';
import { MIB } from '../../../../../common/sizes.js';
import { timeOfUuid } from '../../../../../common/uuid.js';
import { idempotencyScope, isKeptUnderKey } from '../../../../domain/idempotency.js';
import type { Upload } from '../../../../domain/upload.js';
import type { Bucket } from '../bucket.js';
import { claimBytes, keptClaim } from '../idempotency-claims.js';
import { claimKey } from '../keys.js';
import { type Day, DAY_GRACE_MS, directoryOf, endOf, isSlow, mayShare, segmentOf, SHARED_APART_MS, targetName } from '../segment-names.js';

const BATCH_BYTES = 16 * MIB;

interface MovedLine {
  readonly upload: Upload;
  readonly bytes: Buffer;
}

/**
 * Writes index lines of another store to segments in a bucket. The segments get names by which their lines are found
 * (segment-names.ts).
 *
 * - A line whose `Idempotency-Key` is still in use gets a segment of its own, and the claim of the key.
 * - The other lines of a past day get segments with names as compaction gives, which compaction leaves alone.
 * - The other lines of the current day get segments with names as uploads give, which compaction merges later.
 *
 * The name of a shared segment contains a digest of its lines. So if an interrupted move writes the same lines again,
 * in the same groups, they don't appear twice. In other groups they may, if the store carries out a write of the earlier
 * attempt so late that the move doesn't remove it.
 */
export class MovedLines {
  private day: Day | undefined;
  private batch: MovedLine[] = [];
  private bytes = 0;
  /** The keys of the segments and claims that this move has written, or an earlier attempt with the same lines. */
  readonly written = new Set<string>();

  constructor(private readonly bucket: Bucket) {}

  async add(day: Day, line: MovedLine): Promise<void> {
    const isOther = this.day && directoryOf(this.day) !== directoryOf(day);
    if (isOther || this.bytes + line.bytes.length > BATCH_BYTES) await this.flush();
    this.day = day;
    this.batch.push(line);
    this.bytes += line.bytes.length;
  }

  /**
   * Writes the lines that were added. If that fails, with an error of the bucket, some of these lines may be missing
   * from the bucket, and later calls don't write them.
   */
  async flush(): Promise<void> {
    const { day } = this;
    const lines = this.batch.sort((one, other) => one.upload.receivedAt.getTime() - other.upload.receivedAt.getTime());
    this.batch = [];
    this.bytes = 0;
    if (!day || lines.length === 0) return;
    const now = this.bucket.storeTime;
    const isClaimed = ({ upload }: MovedLine): boolean => upload.idempotencyKey !== null && isKeptUnderKey(upload.receivedAt, now);
    const isPast = now > endOf(day);
    const isAlone = (line: MovedLine): boolean => isClaimed(line) || (!isPast && !mayShare(line.upload));
    await eachOf(lines.filter(isAlone), async ({ upload, bytes }) => {
      await this.replace(segmentOf(upload), bytes);
      if (isClaimed({ upload, bytes })) await this.claim(upload);
    });
    const shared = lines.filter((line) => !isAlone(line));
    const [slow, others] = [shared.filter(({ upload }) => isSlow(upload)), shared.filter(({ upload }) => !isSlow(upload))];
    await this.write(day, slow, endOf(day) + DAY_GRACE_MS, true);
    if (isPast) await this.write(day, others, endOf(day) + DAY_GRACE_MS, false);
    else await eachOf(groupsOf(others), ({ time, lines: near }) => this.write(day, near, time, false));
  }

  private async claim(upload: Upload): Promise<void> {
    await this.replace(claimKey(idempotencyScope(upload) ?? ''), claimBytes(keptClaim(upload)));
  }

  private async replace(key: string, bytes: Buffer): Promise<void> {
    await this.bucket.replace(key, bytes);
    this.written.add(key);
  }

  private async write(day: Day, lines: readonly MovedLine[], time: number, isOfSlow: boolean): Promise<void> {
    if (lines.length === 0) return;
    const bytes = Buffer.concat(lines.map((line) => line.bytes));
    const uuid = v7({ msecs: time, random: createHash('sha256').update(bytes).digest().subarray(0, 16) });
    const key = directoryOf(day) + targetName(uuid, isOfSlow);
    await this.bucket.create(key, bytes);
    this.written.add(key);
  }
}

/** Groups lines of the current day so that the times in the ids of a group are at most SHARED_APART_MS from `time`. */
function groupsOf(lines: readonly MovedLine[]): { readonly time: number; readonly lines: MovedLine[] }[] {
  const groups: { time: number; lines: MovedLine[] }[] = [];
  const timed = lines.map((line) => ({ line, began: timeOfUuid(line.upload.uploadId) }));
  for (const { line, began } of timed.sort((one, other) => one.began - other.began)) {
    const last = groups.at(-1);
    if (last && began <= last.time + SHARED_APART_MS) last.lines.push(line);
    else groups.push({ time: began + SHARED_APART_MS, lines: [line] });
  }
  return groups;
}
