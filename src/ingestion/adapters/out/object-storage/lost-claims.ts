import { eachOf } from '../../../../common/each-of.js';
import { Turns } from '../../../../common/turns.js';
import { IDEMPOTENCY_PERIOD_MS } from '../../../domain/idempotency.js';
import type { StorageLogger } from '../../../application/storage-logger.js';
import type { Bucket } from './bucket.js';
import { claimNumber, nothingCompared, readCompared, saveCompared } from './compared-claims.js';
import type { LateSegments } from './event-outbox/late-segments.js';
import { claimBytes, freeRemoved, keptClaim } from './idempotency-claims.js';
import { CLAIMS } from './keys.js';
import { keyedUpload } from './keyed-segments.js';
import { claimOf, type NeededClaims, neededClaims } from './needed-claims.js';
import { Retries } from './retries.js';

const MAX_WAIT_MS = 2_000;
/** The longest pause between attempts to compare. Long, because each may read all segments of the last 24 hours. */
const MAX_PAUSE_MS = 5 * 60_000;

type Outcome = 'rebuilt' | 'rebuilt by another' | 'taken' | 'unneeded';

/**
 * Finds claims that were removed, by a person or a lifecycle rule, although their idempotency keys haven't expired, and
 * rebuilds them from the index lines of the last 24 hours. An upload's claim is created before its line, and removed 25
 * hours later or more. So if a line of the last 24 hours has no claim, the claim was lost.
 *
 * Of the segments of the last 24 hours, a comparison of lines and claims reads only those that were written since the
 * last saved comparison (compared-claims.ts), or up to ten minutes before. If a claim is missing that only an older
 * line needs, it reads all segments again.
 */
export class LostClaims {
  /**
   * Resolves when the first comparison has succeeded or failed, or two seconds after the start. Until then, an upload
   * under an idempotency key shouldn't be stored: it may repeat an upload whose claim was lost.
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
    this.retries = new Retries(logger, MAX_PAUSE_MS);
  }

  start(): void {
    this.opened = new Promise((resolve) => {
      const timer = setTimeout(resolve, MAX_WAIT_MS).unref();
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

  async close(): Promise<void> {
    this.ending.abort();
    await this.retries.close();
    await this.comparing?.catch(() => undefined);
  }

  /**
   * Compares the lines with the claims, and rebuilds the claims that were lost. If a comparison is in progress, waits
   * for that one instead. Rejects with errors of the bucket. Resolves early when the instance is closed.
   *
   * @param isSaved whether to save the result, so that the next comparison reads only newer segments.
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

  /**
   * The needed claims that are missing. Claims are listed after the lines were read: each is created before its line,
   * so only a removed claim can be missing.
   */
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
   * Rebuilds lost claims one by one until one was rebuilt, by this process or another one, and the others in parallel.
   * Processes usually go in the same order, so only one of them rebuilds the first claim and logs a warning.
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

  private async rebuildClaim(segment: string): Promise<Outcome> {
    const found = await this.bucket.read(segment);
    const upload = found && (await keyedUpload(segment, found.bytes));
    const key = claimOf(upload);
    if (!upload || key === undefined || found.ageMs >= IDEMPOTENCY_PERIOD_MS) return 'unneeded';
    await this.late.announceWritten(segment, upload.uploadId, found.ageMs);
    const bytes = claimBytes(keptClaim(upload));
    if ((await this.bucket.create(key, bytes)) === undefined) {
      return (await this.bucket.read(key))?.bytes.equals(bytes) ? 'rebuilt by another' : 'taken';
    }
    // If the line is gone now, its removal may have looked for the claim before the claim was rebuilt. So free it here.
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
