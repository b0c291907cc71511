import { IDEMPOTENCY_PERIOD_MS, idempotencyScope } from '../../../domain/idempotency.js';
import { UPLOAD_KINDS, type Upload } from '../../../domain/upload.js';
import type { StorageLogger } from '../../../application/storage-logger.js';
import type { Bucket, ListedObject } from './bucket.js';
import { claimNumber, type ComparedClaims, NOTHING_COMPARED, readCompared, saveCompared } from './compared-claims.js';
import type { LateSegments } from './event-outbox/late-segments.js';
import { claimBytes, freeRemoved, keptClaim } from './idempotency-claims.js';
import { CLAIMS, claimKey } from './keys.js';
import { keyedUpload, youngSegments } from './keyed-line.js';
import { readAhead } from './read-ahead.js';
import { Retries } from './retries.js';
import { uploadIdIn } from './segment-names.js';
import { eachOf } from './stored-uploads/each-of.js';

/** How long uploads wait for the first comparison at most, in milliseconds from the start. */
const LONGEST_WAIT_MS = 2_000;
/**
 * Segments that were written up to this long before the last comparison are read again, in milliseconds: a store may
 * show a segment later than the time that it gives for it.
 */
const OVERLAP_MS = 10 * 60_000;
/**
 * The longest pause after a comparison that failed, in milliseconds. If it fails again and again, each may have read
 * the segments of a whole day.
 */
const LONGEST_PAUSE_MS = 5 * 60_000;
const LISTED_AT_ONCE = 1_000;
const LONG_BYTES = 64 * 1024;
const LONGEST_BEGIN_BYTES = 64;
const PROGRESS_EVERY_MS = 2_000;

/** A claim that a line needs, in a comparison. */
interface NeededClaim {
  /** When the segment of the line was written, in milliseconds since 1970 by the store's clock. */
  readonly writtenAt: number;
  /** The key of the segment; undefined if an earlier comparison read it. */
  readonly segment?: string;
}

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
    let comparison = await this.read(await readCompared(this.bucket, this.logger));
    let lost = await this.lostIn(comparison.needed);
    if ([...lost.values()].some(({ segment }) => segment === undefined)) {
      comparison = await this.read(NOTHING_COMPARED);
      lost = await this.lostIn(comparison.needed);
    }
    const { needed, readUntil } = comparison;
    for (const claim of await this.rebuildFrom(lost)) needed.delete(claim);
    if (!isSaved || !comparison.hasSegments) return;
    await saveCompared(this.bucket, { readUntil, claims: new Map([...needed].map(([claim, { writtenAt }]) => [claim, writtenAt])) });
  }

  /** Reads the lines that were written since an earlier comparison. Resolves to the claims that all lines need. */
  private async read(earlier: ComparedClaims): Promise<{ needed: Map<number, NeededClaim>; readUntil: number; hasSegments: boolean }> {
    const needed = new Map([...earlier.claims].map(([claim, writtenAt]): [number, NeededClaim] => [claim, { writtenAt }]));
    const readUntil = this.bucket.storeTime - OVERLAP_MS;
    const progress = new Progress(this.logger);
    let hasSegments = false;
    const batch: ListedObject[] = [];
    const readBatch = async (): Promise<void> => {
      const segments = batch.splice(0);
      for await (const [{ key: segment }, object] of readAhead(this.bucket, await this.own(segments), this.ending.signal)) {
        const claim = object && claimOf(await keyedUpload(segment, object.bytes));
        if (object && claim !== undefined) needed.set(claimNumber(claim), { segment, writtenAt: this.bucket.storeTime - object.ageMs });
      }
      progress.add(segments.length);
    };
    for (const kind of UPLOAD_KINDS) {
      for await (const segment of youngSegments(this.bucket, kind)) {
        this.ending.signal.throwIfAborted();
        hasSegments = true;
        if (this.bucket.storeTime - segment.ageMs >= earlier.readUntil) batch.push(segment);
        if (batch.length >= LISTED_AT_ONCE) await readBatch();
      }
    }
    await readBatch();
    progress.end();
    return { needed, readUntil, hasSegments };
  }

  /**
   * Leaves out long segments with several lines, none of which has a key. Of each long segment, reads only the
   * beginning, which is the id of the first upload: a segment with one line has the id in its name.
   */
  private async own(segments: readonly ListedObject[]): Promise<ListedObject[]> {
    const others = new Set<string>();
    await eachOf(segments.filter(({ size }) => size > LONG_BYTES), async ({ key }) => {
      this.ending.signal.throwIfAborted();
      const begin: Uint8Array[] = [];
      for await (const piece of (await this.bucket.open(key, { first: 0, last: LONGEST_BEGIN_BYTES - 1 })) ?? []) begin.push(piece);
      if (!Buffer.concat(begin).includes(uploadIdIn(key))) others.add(key);
    });
    return segments.filter(({ key }) => !others.has(key));
  }

  /** The needed claims that don't exist. The claims are listed now, after the lines were read. */
  private async lostIn(needed: ReadonlyMap<number, NeededClaim>): Promise<Map<number, NeededClaim>> {
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
    let isTold = false;
    const rebuildNext = async ([claim, { segment = '' }]: [number, NeededClaim]): Promise<void> => {
      this.ending.signal.throwIfAborted();
      const outcome = await this.rebuildClaim(segment);
      if (outcome === 'unneeded') unneeded.push(claim);
      if (outcome === 'rebuilt' && !isTold) this.warn(1 + rest.length);
      isTold ||= outcome === 'rebuilt' || outcome === 'rebuilt by another';
    };
    for (let next = rest.shift(); next; next = isTold ? undefined : rest.shift()) await rebuildNext(next);
    await eachOf(rest, rebuildNext);
    return unneeded;
  }

  /**
   * Rebuilds the claim of the line in a segment, unless another upload has taken the claim meanwhile. If the upload was
   * removed, leaves nothing about it.
   */
  private async rebuildClaim(segment: string): Promise<'rebuilt' | 'rebuilt by another' | 'taken' | 'unneeded'> {
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

/** The key of the claim that the line of an upload needs; undefined if there is no upload, or it has no key. */
function claimOf(upload: Upload | undefined): string | undefined {
  const scope = upload ? idempotencyScope(upload) : null;
  return scope === null ? undefined : claimKey(scope);
}

/** Logs how many segments a comparison has read, every two seconds; nothing if it takes less. */
class Progress {
  private readonly began = performance.now();
  private logged = this.began;
  private read = 0;

  constructor(private readonly logger: StorageLogger) {}

  add(segments: number): void {
    this.read += segments;
    const now = performance.now();
    if (now - this.logged < PROGRESS_EVERY_MS) return;
    this.logged = now;
    this.logger.log?.(`Comparing ${CLAIMS} with the lines: ${this.read} segments read.`);
  }

  end(): void {
    if (this.logged === this.began) return;
    this.logger.log?.(`Comparing ${CLAIMS} with the lines: all ${this.read} segments read in ${Math.round((performance.now() - this.began) / 1000)} s.`);
  }
}
