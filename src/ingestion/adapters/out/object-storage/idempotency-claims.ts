import { z } from 'zod';
import { ServiceError } from '../../../../common/service-error.js';
import { parseJson } from '../../../../common/text.js';
import { decodeIndexLine } from '../../../application/line-decoding.js';
import { requestDigest } from '../../../application/request-digest.js';
import { receiptOf, type UploadReceipt } from '../../../application/ports/file-storage.port.js';
import { storageFailure } from '../../../application/storage-failure.js';
import type { StorageLogger } from '../../../application/storage-logger.js';
import { IDEMPOTENCY_PERIOD_MS, idempotencyScope } from '../../../domain/idempotency.js';
import { isContentOf } from '../../../domain/layout-names.js';
import type { Upload, UploadKind } from '../../../domain/upload.js';
import type { Bucket, ReadObject } from './bucket.js';
import type { LateSegments } from './event-outbox/late-segments.js';
import { findKeyedSegment } from './keyed-segments.js';
import { claimKey, FENCE } from './keys.js';
import { Lease, LOST_AFTER_MS } from './lease.js';
import type { Retries } from './retries.js';
import { isSegmentOf, segmentOf } from './segment-names.js';

const RETRY_AFTER_SECONDS = 1;
const MAX_ROUNDS = 5;

const CLAIM = z.object({
  upload_id: z.string(),
  segment: z.string(),
  content_path: z.string().nullable(),
  /** True if the upload has failed for good, although its index line may still exist in the segment. */
  failed: z.boolean().optional(),
  /**
   * True if the upload counts as stored, for example because a repeated request was answered with its receipt. The
   * process that stored it must then not undo it.
   */
  kept: z.boolean().optional(),
  /**
   * True if the upload's index line doesn't exist and can't appear any more. The next upload can then take the claim.
   */
  free: z.boolean().optional(),
}).refine(({ upload_id: uploadId, segment, content_path: path }) => {
  // A claim may name only its own upload's segment and file: otherwise a damaged one could destroy another's.
  return isSegmentOf(segment, uploadId) && (path === null || isContentOf(uploadId, path));
});

/**
 * Says which upload has an idempotency scope (kind, customer and key). The key of the claim's object is `idempotency/`
 * plus the SHA-256 of the scope in hex.
 */
export type Claim = Readonly<z.infer<typeof CLAIM>>;

/** Serializes a claim as the content of its object. */
export const claimBytes = (claim: Claim): Buffer => Buffer.from(JSON.stringify(claim));

/** The claim of an upload whose index line exists. It says `kept`, so that no process undoes the upload. */
export const keptClaim = (upload: Upload): Claim =>
  ({ upload_id: upload.uploadId, segment: segmentOf(upload), content_path: upload.content?.path ?? null, kept: true });

/** The content that replaces the claim of a removed upload. It says nothing about the upload. */
const FREED = Buffer.from('{"free":true}');
const FREED_CLAIM: Claim = { upload_id: '', segment: '', content_path: null, free: true };
const parseClaim = ({ bytes }: ReadObject): Claim | undefined => (bytes.equals(FREED) ? FREED_CLAIM : CLAIM.safeParse(parseJson(bytes)).data);

/**
 * Frees the claim at `key` of an upload whose index line was removed: the next upload under the same idempotency key
 * can take the claim. Does nothing if another upload has it. Throws errors of the bucket, and an Error if other
 * processes change the claim five times in a row.
 */
export async function freeRemoved(bucket: Bucket, key: string, uploadId: string): Promise<void> {
  for (let round = 0; round < MAX_ROUNDS; round++) {
    const found = await bucket.read(key);
    if (!found || parseClaim(found)?.upload_id !== uploadId || (await bucket.replace(key, FREED, found.version)) !== undefined) return;
  }
  throw new Error(`${key} changes faster than it can be freed.`);
}

interface KeyedRequest {
  readonly scope: string;
  readonly kind: UploadKind;
}

/**
 * The meaning of an existing claim for a new request with the same idempotency scope:
 *
 * - `running`: an upload may be in progress, or this process is already searching for the line of a damaged claim.
 * - `free`: the new upload can take the claim.
 * - `damaged`: as `free`, but the claim is unreadable or wrong.
 * - `changed`: the claim was changed after it was read, and must be read again.
 * - an `Upload`: the stored upload that has the scope.
 */
type ClaimState = 'running' | 'free' | 'damaged' | 'changed' | Upload;

/**
 * Keeps an idempotency scope from having two uploads at once, whichever processes receive them: a repeated request gets
 * the receipt of the stored upload. The scope is free again 24 hours after that upload was stored, or when the upload
 * is removed.
 *
 * The process that creates the claim's object, or takes over an existing one, holds the scope. The upload is stored
 * once the segment with its index line, which contains the idempotency key, exists. So line and key are committed at
 * once.
 *
 * A claim may say neither `free` nor `failed` while its segment doesn't exist. Then the upload is in progress, or its
 * process has crashed and no longer renews the claim, or compaction merged the segment more than a day after it was
 * written. Before another upload takes over such a claim, it creates an empty object in place of the segment. A process
 * that was only stalled can then no longer write the segment.
 *
 * If the upload's own process doesn't know whether the line exists, it writes `failed` to the claim. A process that
 * answers a repeated request writes `kept`. The first of these two writes decides.
 *
 * A damaged claim is rebuilt from the index lines, with a warning. If no line of the last 24 hours has the scope,
 * another upload can take the claim once the claim's object is older than a minute. An upload in progress renews its
 * claim every 15 s. So by then it has noticed the damage and fails, unless it was already writing its line.
 */
export class IdempotencyClaims {
  /** Whether a search for a damaged claim's line runs: only one at a time, as it may read thousands of segments. */
  private isSearching = false;

  constructor(
    private readonly bucket: Bucket,
    private readonly late: LateSegments,
    private readonly retries: Retries,
    private readonly logger: StorageLogger,
  ) {}

  /**
   * Stores an upload by calling `keep`, and resolves to its receipt. If the idempotency scope already has an upload,
   * calls `read` instead, which reads the repeated request to its end, and resolves to the receipt of the stored upload
   * if both requests are the same.
   *
   * @param own the claim to write if the scope is free.
   * @throws ServiceError `request-in-progress`, `idempotency-key-reused`, `storage-failure`; errors of `keep` and
   *   `read`.
   */
  async once(
    request: KeyedRequest,
    own: Claim,
    keep: (claim: Lease<Claim>) => Promise<Upload>,
    read: () => Promise<Upload>,
  ): Promise<UploadReceipt> {
    const key = claimKey(request.scope);
    const found = await this.take(key, request, own).catch((error: unknown) => {
      if (error instanceof ServiceError) throw error;
      this.retries.begin(`Freeing ${key}`, () => this.free(key, own));
      return storageFailure('An idempotency key could not be claimed.')(error);
    });
    if (typeof found !== 'string') return answer(found, await read());
    const claim = new Lease(this.bucket, key, own, found);
    try {
      return receiptOf(await keep(claim));
    } finally {
      void claim.end();
    }
  }

  /**
   * Frees the scope of a failed upload whose index line can't exist or appear any more. Never rejects: a failure is
   * retried in the background.
   */
  async release(claim: Lease<Claim>): Promise<void> {
    await claim.endWith({ free: true }).catch(() => {
      this.retries.begin(`Freeing ${claim.key}`, () => claim.endWith({ free: true }));
    });
  }

  /**
   * Decides that an upload whose index line may exist has failed. Resolves to false if the upload must stay, because a
   * repeated request may have been answered with its receipt. Throws errors of the bucket; the call can be repeated.
   */
  async fail(claim: Lease<Claim>): Promise<boolean> {
    if (await claim.endWith({ failed: true })) return true;
    const found = await this.bucket.read(claim.key);
    const decided = found && parseClaim(found);
    // If another upload has taken over the claim, this one must be undone. Usually a fence keeps its line away, but not
    // after damage to the claim.
    return decided?.upload_id !== claim.current.upload_id || !decided.kept;
  }

  /**
   * Frees a claim, `own`, whose write has failed: it may exist, or may still appear. If there is no claim, writes a
   * freed one, so that `own` can't appear any more.
   */
  private async free(key: string, own: Claim): Promise<void> {
    const freed = claimBytes({ ...own, free: true });
    if ((await this.bucket.create(key, freed)) !== undefined) return;
    const found = await this.bucket.read(key);
    if (found && parseClaim(found)?.upload_id === own.upload_id) await this.bucket.replace(key, freed, found.version);
  }

  private async take(key: string, request: KeyedRequest, own: Claim): Promise<string | Upload> {
    const bytes = claimBytes(own);
    for (let round = 0; round < MAX_ROUNDS; round++) {
      const made = await this.bucket.create(key, bytes);
      if (made !== undefined) return made;
      const found = await this.bucket.read(key);
      if (!found) continue;
      const state = await this.stateOf(key, request, found);
      if (state === 'running') break;
      if (state === 'changed') continue;
      if (state !== 'free' && state !== 'damaged') return state;
      const taken = await this.bucket.replace(key, bytes, found.version);
      if (taken === undefined) continue;
      if (state === 'damaged') this.logger.warn(`${key} was damaged, and no line of the last 24 hours has its key. The next upload has taken it.`);
      return taken;
    }
    throw new ServiceError('request-in-progress', 'A request with this Idempotency-Key is in progress.', { retryAfterSeconds: RETRY_AFTER_SECONDS });
  }

  private async stateOf(key: string, request: KeyedRequest, found: ReadObject): Promise<ClaimState> {
    const claim = parseClaim(found);
    if (!claim) return this.stateByLines(key, request, found);
    if (claim.free) return 'free';
    if (claim.failed) {
      await this.bucket.replace(claim.segment, FENCE);
      if (claim.content_path !== null) await this.bucket.remove([claim.content_path]);
      return 'free';
    }
    let written = await this.bucket.read(claim.segment);
    if (!written) {
      if (found.ageMs < LOST_AFTER_MS) return 'running';
      if ((await this.bucket.create(claim.segment, FENCE)) !== undefined) return 'free';
      written = await this.bucket.read(claim.segment);
    }
    const upload = written && written.bytes.length > 0 ? await decodeIndexLine(written.bytes) : undefined;
    // The 24 hours begin when the segment was written, by the store's clock, because the clocks of replicas differ.
    if (!upload || !written || written.ageMs >= IDEMPOTENCY_PERIOD_MS) return 'free';
    if (idempotencyScope(upload) !== request.scope) return this.stateByLines(key, request, found);
    if (!claim.kept) await this.late.announceWritten(claim.segment, upload.uploadId, written.ageMs);
    if (claim.kept || (await this.bucket.replace(key, claimBytes({ ...claim, kept: true }), found.version)) !== undefined) return upload;
    return 'changed';
  }

  private async stateByLines(key: string, { kind, scope }: KeyedRequest, found: ReadObject): Promise<ClaimState> {
    if (this.isSearching) return 'running';
    this.isSearching = true;
    const keyed = await findKeyedSegment(this.bucket, kind, scope).finally(() => (this.isSearching = false));
    if (!keyed) return found.ageMs < LOST_AFTER_MS ? 'running' : 'damaged';
    const { upload, segment, ageMs } = keyed;
    await this.late.announceWritten(segment, upload.uploadId, ageMs);
    if ((await this.bucket.replace(key, claimBytes(keptClaim(upload)), found.version)) === undefined) return 'changed';
    this.logger.warn(`${key} was damaged. It was rebuilt from the line in ${segment}.`);
    return upload;
  }
}

async function answer(kept: Upload, repeated: Upload): Promise<UploadReceipt> {
  if ((await requestDigest(repeated)) !== (await requestDigest(kept))) throw new ServiceError('idempotency-key-reused');
  return { ...receiptOf(kept), replayed: true };
}
