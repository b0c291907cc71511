import { IDEMPOTENCY_PERIOD_MS } from '../../../domain/idempotency.js';
import type { StorageLogger } from '../../../application/storage-logger.js';
import type { Bucket } from './bucket.js';
import { claimNumber, NOTHING_COMPARED, readCompared, saveCompared } from './compared-claims.js';
import type { LateSegments } from './event-outbox/late-segments.js';
import { claimBytes, freeRemoved, keptClaim } from './idempotency-claims.js';
import { CLAIMS } from './keys.js';
import { keyedUpload } from './keyed-line.js';
import { claimOf, type NeededClaim, neededClaims } from './needed-claims.js';
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
  private readonly ending = new AbortController();
  private readonly retries: Retries;
  private opening: Promise<void> = Promise.resolve();
  private comparing: Promise<void> | undefined;

  constructor(
    private readonly bucket: Bucket,
    private readonly late: LateSegments,
    private readonly logger: StorageLogger,
  ) {
    this.retries = new Retries(logger, LONGEST_PAUSE_MS);
  }

  /**
   * Resolves when the first comparison was made or has failed, or two seconds after the start. Until then, an upload
   * under a key shouldn't be stored: it may repeat one whose claim was lost.
   */
  get opened(): Promise<void> {
    return this.opening;
  }

  /** Begins the first comparison, which is repeated in the background until it succeeds. */
  start(): void {
    this.opening = new Promise((resolve) => {
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
    let comparison = await neededClaims(bucket, await readCompared(bucket, logger), logger, signal);
    let lost = await this.lostOf(comparison.needed);
    if ([...lost.values()].some(({ segment }) => segment === undefined)) {
      comparison = await neededClaims(bucket, NOTHING_COMPARED, logger, signal);
      lost = await this.lostOf(comparison.needed);
    }
    const { needed, readUntil, hasSegments } = comparison;
    for (const claim of await this.rebuildFrom(lost)) needed.delete(claim);
    if (!isSaved || !hasSegments) return;
    await saveCompared(bucket, { readUntil, claims: new Map([...needed].map(([claim, { writtenAt }]) => [claim, writtenAt])) });
  }

  /** The needed claims that don't exist. The claims are listed now, after the lines were read. */
  private async lostOf(needed: ReadonlyMap<number, NeededClaim>): Promise<Map<number, NeededClaim>> {
    const lost = new Map(needed);
    if (lost.size === 0) return lost;
    for await (const { key } of this.bucket.list(CLAIMS)) {
      lost.delete(claimNumber(key));
      this.ending.signal.throwIfAborted();
    }
    return lost;
  }

  /**
   * Rebuilds claims in the order of their numbers, so that of several replicas one is the first to rebuild any. Only
   * that one warns, with the number of all lost claims.
   *
   * @returns the claims that no line needs any more, because their uploads were removed meanwhile.
   */
  private async rebuildFrom(lost: ReadonlyMap<number, NeededClaim>): Promise<number[]> {
    const rest = [...lost].sort(([one], [other]) => one - other);
    const unneeded: number[] = [];
    const rebuildNext = async ([claim, { segment = '' }]: [number, NeededClaim]): Promise<Outcome> => {
      this.ending.signal.throwIfAborted();
      const outcome = await this.rebuildClaim(segment);
      if (outcome === 'unneeded') unneeded.push(claim);
      return outcome;
    };
    for (let next = rest.shift(); next; next = rest.shift()) {
      const outcome = await rebuildNext(next);
      if (outcome === 'rebuilt') this.warn(1 + rest.length);
      if (outcome === 'rebuilt' || outcome === 'rebuilt by another') break;
    }
    await eachOf(rest, async (next) => {
      await rebuildNext(next);
    });
    return unneeded;
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
