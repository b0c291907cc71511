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
  /** Where the line of the upload is, or will be, alone; null when the upload has failed. */
  readonly segment: string | null;
}

/**
 * Lets one upload of each scope through, whichever process it comes to, and answers repeated ones with the first.
 *
 * Who makes the claim's object has the scope. The upload is kept when its segment is there: the key stands in the line,
 * so that both are one commit. A claim without a segment belongs to an upload under way, or to a lost process, which
 * doesn't renew it: then an empty segment is made first, so that the lost one can't come back and write it.
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
      this.retries.begin(`Freeing ${key}`, () => this.free(key, own.upload_id));
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

  /** Gives the scope free, of an upload that failed and can't come back. Never rejects: it is tried again meanwhile. */
  async release(claim: Lease<Claim>, own: Claim): Promise<void> {
    const version = await claim.end();
    const free: Claim = { ...own, segment: null };
    await this.bucket.replace(claim.key, Buffer.from(JSON.stringify(free)), version).catch(() => {
      this.retries.begin(`Freeing ${claim.key}`, () => this.free(claim.key, own.upload_id));
    });
  }

  /** The same when our version isn't known; also resolves when somebody else has it. */
  private async free(key: string, uploadId: string): Promise<void> {
    const found = await this.bucket.read(key);
    if (!found || parseClaim(found)?.upload_id !== uploadId) return;
    const free: Claim = { upload_id: uploadId, segment: null };
    await this.bucket.replace(key, Buffer.from(JSON.stringify(free)), found.version);
  }

  /** The version of our claim, or the upload that is kept. */
  private async take(key: string, own: Claim): Promise<string | Upload> {
    const bytes = Buffer.from(JSON.stringify(own));
    for (let turn = 0; turn < MOST_TURNS; turn++) {
      const made = await this.bucket.create(key, bytes);
      if (made !== undefined) return made;
      const found = await this.bucket.read(key);
      if (!found) continue;
      const state = await this.stateOf(found);
      if (state === 'running') break;
      if (state !== 'free') return state;
      const taken = await this.bucket.replace(key, bytes, found.version);
      if (taken !== undefined) return taken;
    }
    throw new ServiceError('request-in-progress', key, { retryAfterSeconds: RETRY_AFTER_SECONDS });
  }

  private async stateOf(found: ReadObject): Promise<'running' | 'free' | Upload> {
    const segment = parseClaim(found)?.segment;
    if (segment === undefined) throw new Error('A claim of an idempotency key is not as it was written.');
    if (segment === null) return 'free';
    let written = await this.bucket.read(segment);
    if (!written) {
      if (found.ageMs < LOST_AFTER_MS) return 'running';
      if ((await this.bucket.create(segment, Buffer.alloc(0))) !== undefined) return 'free';
      written = await this.bucket.read(segment);
    }
    const upload = written && written.bytes.length > 0 ? parseIndexLine(written.bytes.toString()) : undefined;
    return upload && isKeptUnderKey(upload.receivedAt) ? upload : 'free';
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
