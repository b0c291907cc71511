import { ServiceError } from '../../../../common/service-error.js';
import { receiptOf, type UploadReceipt } from '../../../application/ports/file-storage.port.js';
import { storageFailure } from '../../../application/storage-failure.js';
import { isKeptUnderKey, requestIdentity } from '../../../domain/idempotency.js';
import { parseIndexLine } from '../../../domain/layout.js';
import type { Upload } from '../../../domain/upload.js';
import type { Bucket, ReadObject } from './bucket.js';
import { claimKey } from './keys.js';
import { Lease, LOST_AFTER_MS } from './lease.js';
import type { Retries } from './retries.js';

const RETRY_AFTER_SECONDS = 1;
/** How often somebody else may come between reading a claim and taking it. */
const MOST_TURNS = 5;

/** What stands under an idempotency key's digest. */
export interface Claim {
  readonly upload_id: string;
  /** Where the line of the upload is, or will be, alone. */
  readonly segment: string;
  /** Where its file is, or will be; null without one. */
  readonly content_path: string | null;
  /** Set when the upload has failed for good, though its line may be there. */
  readonly failed?: boolean;
  /** Set when somebody was answered with the upload, though its own process may not know that its line is there. */
  readonly kept?: boolean;
  /** Set when nothing of the upload is there or can come: the scope may be taken. */
  readonly free?: boolean;
}

const EMPTY = Buffer.alloc(0);
const bytesOf = (claim: Claim): Buffer => Buffer.from(JSON.stringify(claim));

/**
 * Lets one upload of each scope through, whichever process it comes to, and answers repeated ones with the first.
 *
 * Who makes the claim's object has the scope. The upload is kept when its segment is there: the key stands in the line,
 * so that both are one commit. A claim without a segment belongs to an upload under way, or to a lost process, which
 * doesn't renew it: then an empty segment is made first, so that the lost one can't come back and write it. Where the
 * upload's own process doesn't know whether the line is there, the claim's next writer decides: `kept` or `failed`.
 */
export class IdempotencyClaims {
  constructor(
    private readonly bucket: Bucket,
    private readonly retries: Retries,
  ) {}

  /**
   * Keeps an upload by `keep`, unless one is kept under its scope: then `read` reads the request to its end.
   *
   * @param own what the claim is to say at first.
   * @throws ServiceError `request-in-progress`, `idempotency-key-reused`, `storage-failure`; what the two throw.
   */
  async once(
    scope: string,
    own: Claim,
    keep: (claim: Lease<Claim>) => Promise<Upload>,
    read: () => Promise<Upload>,
  ): Promise<UploadReceipt> {
    const key = claimKey(scope);
    const found = await this.take(key, own).catch((error: unknown) => {
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

  /** Gives the scope free, of an upload that failed and of which nothing is there; the next boot of anybody does it otherwise. */
  async release(claim: Lease<Claim>, own: Claim): Promise<void> {
    await claim.end();
    await claim.endWith({ ...own, free: true } satisfies Claim);
  }

  /**
   * Decides that an upload has failed whose line may be there; false when somebody was answered with it before. Throws
   * what the bucket throws, and may be called again.
   */
  async fail(claim: Lease<Claim>, uploadId: string): Promise<boolean> {
    if (await claim.fail()) return true;
    const found = await this.bucket.read(claim.key);
    const decided = found && parseClaim(found);
    // Somebody else's claim stands behind a fence in our segment.
    return decided?.upload_id !== uploadId || !decided.kept;
  }

  /** As `release` when it isn't known whether our claim is there, or comes later; also resolves when somebody else has it. */
  private async free(key: string, own: Claim): Promise<void> {
    if ((await this.bucket.create(key, bytesOf({ ...own, free: true }))) !== undefined) return;
    const found = await this.bucket.read(key);
    if (found && parseClaim(found)?.upload_id === own.upload_id) await this.bucket.replace(key, bytesOf({ ...own, free: true }), found.version);
  }

  /** The version of our claim, or the upload that is kept. */
  private async take(key: string, own: Claim): Promise<string | Upload> {
    const bytes = bytesOf(own);
    for (let turn = 0; turn < MOST_TURNS; turn++) {
      const made = await this.bucket.create(key, bytes);
      if (made !== undefined) return made;
      const found = await this.bucket.read(key);
      if (!found) continue;
      const state = await this.stateOf(key, found);
      if (state === 'running') break;
      if (state === 'changed') continue;
      if (state !== 'free') return state;
      const taken = await this.bucket.replace(key, bytes, found.version);
      if (taken !== undefined) return taken;
    }
    throw new ServiceError('request-in-progress', key, { retryAfterSeconds: RETRY_AFTER_SECONDS });
  }

  private async stateOf(key: string, found: ReadObject): Promise<'running' | 'free' | 'changed' | Upload> {
    const claim = parseClaim(found);
    if (!claim) throw new Error('A claim of an idempotency key is not as it was written.');
    if (claim.free) return 'free';
    if (claim.failed) {
      await this.bucket.replace(claim.segment, EMPTY);
      if (claim.content_path !== null) await this.bucket.remove([claim.content_path]);
      return 'free';
    }
    let written = await this.bucket.read(claim.segment);
    if (!written) {
      if (found.ageMs < LOST_AFTER_MS) return 'running';
      if ((await this.bucket.create(claim.segment, EMPTY)) !== undefined) return 'free';
      written = await this.bucket.read(claim.segment);
    }
    const upload = written && written.bytes.length > 0 ? parseIndexLine(written.bytes.toString()) : undefined;
    if (!upload || !isKeptUnderKey(upload.receivedAt)) return 'free';
    if (claim.kept || (await this.bucket.replace(key, bytesOf({ ...claim, kept: true }), found.version)) !== undefined) return upload;
    return 'changed';
  }
}

function answer(kept: Upload, repeated: Upload): UploadReceipt {
  if (requestIdentity(repeated) !== requestIdentity(kept)) throw new ServiceError('idempotency-key-reused');
  return { ...receiptOf(kept), replayed: true };
}

function parseClaim({ bytes }: ReadObject): Claim | undefined {
  try {
    return JSON.parse(bytes.toString()) as Claim;
  } catch {
    return undefined;
  }
}
