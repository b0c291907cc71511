import { Turns } from '../../../../common/turns.js';
import { IDEMPOTENCY_PERIOD_MS } from '../../../domain/idempotency.js';
import type { StorageLogger } from '../../../application/storage-logger.js';
import type { Bucket } from './bucket.js';
import { claimNumber, nothingCompared, readCompared, saveCompared } from './compared-claims.js';
import type { LateSegments } from './event-outbox/late-segments.js';
import { claimBytes, freeRemoved, keptClaim } from './idempotency-claims.js';
import { CLAIMS } from './keys.js';
import { keyedUpload } from './keyed-line.js';
import { claimOf, type NeededClaims, neededClaims } from './needed-claims.js';
import { Retries } from './retries.js';
import { eachOf } from './stored-uploads/each-of.js';

/** How long uploads wait for the first comparison at most, in milliseconds from the start. */
const LONGEST_WAIT_MS = 2_000;
/**
 * The longest pause after a comparison that failed, in milliseconds. If it fails again and again, each may have read
 * the segments of a whole day.
 */
const LONGEST_PAUSE_MS = 5 * 60_000;

/**
 * What became of a lost claim. `taken`: another upload has the claim. `unneeded`: no line younger than 24 hours needs
 * the claim any more.
 */
type Outcome = 'rebuilt' | 'rebuilt by another' | 'taken' | 'unneeded';

/**
 * Finds claims that were removed although their idempotency keys haven't expired, by a person or a lifecycle rule, and
 * rebuilds them from the index lines. To do so, compares the lines of the last 24 hours with a listing of the claims:
 * the claim of a line exists from before the line until 25 hours later. An upload in progress has no line yet, so its
 * claim isn't needed.
 *
 * A comparison reads only the segments that were written since the last one that was saved (compared-claims.ts), and
 * lists those of the last two days and all claims. It reads all segments of the last 24 hours if a claim is missing that
 * an earlier line needs.
 */
export class LostClaims {
  /**
   * Resolves when the first comparison was made or has failed, or two seconds after the start. Until then, an upload
   * under a key shouldn't be stored: it may repeat one whose claim was lost.
   */
  opened = Promise.resolve();
  private readonly ending = new AbortController();
  private readonly retries: Retries;
  private comparing: Promise<void> | undefined;

  constructor(
    private readonly bucket: Bucket,
    private readonly late: LateSegments,
    private readonly logger: StorageLogger,
  ) {
    this.retries = new Retries(logger, LONGEST_PAUSE_MS);
  }

  /** Begins the first comparison, which is repeated in the background until it succeeds. */
  start(): void {
    this.opened = new Promise((resolve) => {
      const timer = setTimeout(resolve, LONGEST_WAIT_MS).unref();
      this.retries.begin(`Comparing ${CLAIMS} with the lines`, async () => {
        try {
          await this.rebuild();
        } finally {
          clearTimeout(timer);
          resolve();
        }
      });
    });
  }

  /** Stops a comparison in progress at its next step. */
  async close(): Promise<void> {
    this.ending.abort();
    await this.retries.close();
    await this.comparing?.catch(() => undefined);
  }

  /**
   * Makes a comparison, unless one is in progress, and rebuilds the claims that were lost. Rejects with errors of the
   * bucket. Resolves early when the instance is closed.
   *
   * @param isSaved whether to save what was compared for the next comparison.
   */
  async rebuild({ isSaved = false } = {}): Promise<void> {
    this.comparing ??= this.compare(isSaved).finally(() => (this.comparing = undefined));
    await this.comparing.catch((error: unknown) => {
      if (!this.ending.signal.aborted) throw error;
    });
  }

  private async compare(isSaved: boolean): Promise<void> {
    this.ending.signal.throwIfAborted();
    const { bucket, logger, ending: { signal } } = this;
    let needed = await neededClaims(bucket, await readCompared(bucket, logger), logger, signal);
    let lost = await this.lostOf(needed);
    if (lost.some((claim) => !needed.segments.has(claim))) {
      needed = await neededClaims(bucket, nothingCompared(), logger, signal);
      lost = await this.lostOf(needed);
    }
    await this.rebuildAll(lost, needed);
    if (isSaved && needed.hasSegments) await saveCompared(bucket, needed);
  }

  /** The needed claims that don't exist. The claims are listed now, after the lines were read. */
  private async lostOf({ claims }: NeededClaims): Promise<number[]> {
    if (claims.size === 0) return [];
    const listed = new Set<number>();
    for await (const { key } of this.bucket.list(CLAIMS)) {
      this.ending.signal.throwIfAborted();
      listed.add(claimNumber(key));
    }
    const lost: number[] = [];
    const turns = new Turns();
    for (const claim of claims.keys()) {
      if (turns.isOver) await turns.next();
      if (!listed.has(claim)) lost.push(claim);
    }
    return lost;
  }

  /**
   * Rebuilds lost claims, in the order in which their lines were read. It is the same on all replicas, so one of them is
   * the first to rebuild any. Only that one warns, with the number of all lost claims.
   */
  private async rebuildAll(lost: readonly number[], { claims, segments }: NeededClaims): Promise<void> {
    const rebuildNext = async (claim: number): Promise<Outcome> => {
      this.ending.signal.throwIfAborted();
      const outcome = await this.rebuildClaim(segments.get(claim) ?? '');
      if (outcome === 'unneeded') claims.delete(claim);
      return outcome;
    };
    let left = lost.length;
    for (const claim of lost) {
      const outcome = await rebuildNext(claim);
      if (outcome === 'rebuilt') this.warn(left);
      left -= 1;
      if (outcome === 'rebuilt' || outcome === 'rebuilt by another') break;
    }
    await eachOf(lost.slice(lost.length - left), async (claim) => {
      await rebuildNext(claim);
    });
  }

  /**
   * Rebuilds the claim of the line in a segment, unless another upload has taken the claim meanwhile. If the upload was
   * removed, leaves nothing about it.
   */
  private async rebuildClaim(segment: string): Promise<Outcome> {
    const found = await this.bucket.read(segment);
    const upload = found && (await keyedUpload(segment, found.bytes));
    const key = claimOf(upload);
    if (!upload || key === undefined || found.ageMs >= IDEMPOTENCY_PERIOD_MS) return 'unneeded';
    // The process that stored the upload may have crashed before it announced the segment as late, so the segment is
    // announced again.
    await this.late.announceWritten(segment, upload.uploadId, found.ageMs);
    const bytes = claimBytes(keptClaim(upload));
    if ((await this.bucket.create(key, bytes)) === undefined) {
      return (await this.bucket.read(key))?.bytes.equals(bytes) ? 'rebuilt by another' : 'taken';
    }
    // A removal frees the claim after it has removed the line. If the line is gone, the removal may have found no claim.
    const left = await this.bucket.read(segment);
    if (left && (await keyedUpload(segment, left.bytes))) return 'rebuilt';
    await freeRemoved(this.bucket, key, upload.uploadId);
    return 'unneeded';
  }

  private warn(count: number): void {
    const claims = count === 1 ? '1 claim of an idempotency key is' : `${count} claims of idempotency keys are`;
    this.logger.warn(`${claims} missing in ${CLAIMS}, perhaps removed by a lifecycle rule; rebuilding from the lines of the last 24 hours.`);
  }
}
