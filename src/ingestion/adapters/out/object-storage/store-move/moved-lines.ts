import { createHash } from 'node:crypto';
import { v7 } from 'uuid';
import { idempotencyScope, isKeptUnderKey } from '../../../../domain/idempotency.js';
import type { Upload } from '../../../../domain/upload.js';
import type { Bucket } from '../bucket.js';
import { claimBytes, keptClaim } from '../idempotency-claims.js';
import { claimKey } from '../keys.js';
import { type Day, DAY_GRACE_MS, directoryOf, endOf, isSlow, NAME_TOLERANCE_MS, segmentOf, targetName } from '../segment-names.js';
import { eachOf } from '../stored-uploads/each-of.js';

/**
 * How long after the first line of a shared segment, by which the segment is named, its other lines were received at
 * most, in milliseconds. As in segments of uploads, so that a search by an id looks into the segment at once.
 */
const MOST_APART_MS = NAME_TOLERANCE_MS / 2;
/** A batch of lines is written when it has this many bytes. */
const BATCH_BYTES = 16 * 1024 * 1024;

interface MovedLine {
  readonly upload: Upload;
  /** The index line with its newline. */
  readonly bytes: Buffer;
}

/**
 * Writes index lines of another store to a bucket, so that they are found there: under names that tell when their
 * uploads were received (segment-names.ts).
 *
 * - A line whose `Idempotency-Key` is still in use gets a segment of its own, and the claim of the key.
 * - The other lines of a past day get the names of segments that compaction has created, so it leaves them alone.
 * - The other lines of the current day get the names that uploads give, so compaction merges them when the day is over.
 *
 * A name contains the digest of its lines. So a line that is written again doesn't appear twice.
 */
export class MovedLines {
  private day: Day | undefined;
  private batch: MovedLine[] = [];
  private bytes = 0;

  constructor(private readonly bucket: Bucket) {}

  /** Adds the line of an upload, of the same day as the lines before or of another one. Rejects with errors of the bucket. */
  async add(day: Day, line: MovedLine): Promise<void> {
    const isOther = this.day && directoryOf(this.day) !== directoryOf(day);
    if (isOther || this.bytes >= BATCH_BYTES) await this.flush();
    this.day = day;
    this.batch.push(line);
    this.bytes += line.bytes.length;
  }

  /**
   * Writes the lines that were added and not written yet. If it rejects, with an error of the bucket, some of these
   * lines may be missing from the bucket, and no later call writes them.
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
    const isAlone = (line: MovedLine): boolean => isClaimed(line) || (!isPast && isSlow(line.upload));
    await eachOf(lines.filter(isAlone), async ({ upload, bytes }) => {
      await this.bucket.replace(segmentOf(upload), bytes);
      if (isClaimed({ upload, bytes })) await this.claim(upload);
    });
    const shared = lines.filter((line) => !isAlone(line));
    const [slow, others] = [shared.filter(({ upload }) => isSlow(upload)), shared.filter(({ upload }) => !isSlow(upload))];
    await this.write(day, slow, endOf(day) + DAY_GRACE_MS, true);
    if (isPast) await this.write(day, others, endOf(day) + DAY_GRACE_MS, false);
    else await eachOf(windowsOf(others), ({ begin, lines: near }) => this.write(day, near, begin, false));
  }

  private async claim(upload: Upload): Promise<void> {
    await this.bucket.replace(claimKey(idempotencyScope(upload) ?? ''), claimBytes(keptClaim(upload)));
  }

  /** Writes lines to one segment with a time in its name, in milliseconds since 1970. */
  private async write(day: Day, lines: readonly MovedLine[], time: number, isOfSlow: boolean): Promise<void> {
    if (lines.length === 0) return;
    const bytes = Buffer.concat(lines.map((line) => line.bytes));
    const uuid = v7({ msecs: time, random: createHash('sha256').update(bytes).digest().subarray(0, 16) });
    await this.bucket.create(directoryOf(day) + targetName(uuid, isOfSlow), bytes);
  }
}

/** Splits lines that are in the order of `received_at` into those that may share a segment of uploads. */
function windowsOf(lines: readonly MovedLine[]): { readonly begin: number; readonly lines: MovedLine[] }[] {
  const windows: { begin: number; lines: MovedLine[] }[] = [];
  for (const line of lines) {
    const time = line.upload.receivedAt.getTime();
    const last = windows.at(-1);
    if (last && time - last.begin <= MOST_APART_MS) last.lines.push(line);
    else windows.push({ begin: time, lines: [line] });
  }
  return windows;
}
