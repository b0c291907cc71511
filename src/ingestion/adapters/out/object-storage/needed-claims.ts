import { eachOf } from '../../../../common/each-of.js';
import { idempotencyScope } from '../../../domain/idempotency.js';
import { UPLOAD_KINDS, type Upload } from '../../../domain/upload.js';
import { LoggedProgress } from '../../../application/logged-progress.js';
import type { StorageLogger } from '../../../application/storage-logger.js';
import type { Bucket, ListedObject } from './bucket.js';
import { claimNumber, type ComparedClaims } from './compared-claims.js';
import { CLAIMS, claimKey } from './keys.js';
import { keyedUpload, youngSegments } from './keyed-segments.js';
import { readAhead } from './read-ahead.js';
import { uploadIdIn } from './segment-names.js';

/**
 * A comparison of lines and claims also reads the segments written up to this long before the last saved comparison
 * began: a store may list a segment only some time after the time of writing that it reports.
 */
const OVERLAP_MS = 10 * 60_000;
const LISTED_AT_ONCE = 1_000;
const LONG_BYTES = 64 * 1024;
/** In an index line, the upload's id ends within this many bytes from the beginning of the line. */
const BEGIN_BYTES = 64;

export interface NeededClaims extends ComparedClaims {
  /** The segment whose line needs a claim, by the claim's number (`claimNumber`): only segments read this time. */
  readonly segments: ReadonlyMap<number, string>;
  readonly hasSegments: boolean;
}

/** The key of the claim that an upload's line needs; undefined if it needs none. */
export function claimOf(upload: Upload | undefined): string | undefined {
  const scope = upload ? idempotencyScope(upload) : null;
  return scope === null ? undefined : claimKey(scope);
}

/**
 * Finds the claims that the index lines of the last 24 hours need. Reads only segments that were written at the time
 * `earlier.readUntil` or later, and adds their claims to `earlier.claims`. Rejects with errors of the bucket, and with
 * the signal's reason.
 */
export async function neededClaims(bucket: Bucket, earlier: ComparedClaims, logger: StorageLogger, signal: AbortSignal): Promise<NeededClaims> {
  const { claims } = earlier;
  const segments = new Map<number, string>();
  const readUntil = bucket.storeTime - OVERLAP_MS;
  const progress = new LoggedProgress(logger, {
    work: `Comparing ${CLAIMS} with the lines`,
    soFar: (read) => `${read} segments read`,
    inAll: (read) => `all ${read} segments read`,
  });
  let hasSegments = false;
  const batch: ListedObject[] = [];
  const readBatch = async (): Promise<void> => {
    const listed = batch.splice(0);
    for await (const [{ key: segment }, object] of readAhead(bucket, await withoutShared(bucket, listed, signal), signal)) {
      const key = object && claimOf(await keyedUpload(segment, object.bytes));
      if (!object || key === undefined) continue;
      claims.set(claimNumber(key), bucket.storeTime - object.ageMs);
      segments.set(claimNumber(key), segment);
    }
    progress.add(listed.length);
  };
  for (const kind of UPLOAD_KINDS) {
    for await (const segment of youngSegments(bucket, kind)) {
      signal.throwIfAborted();
      hasSegments = true;
      if (bucket.storeTime - segment.ageMs >= earlier.readUntil) batch.push(segment);
      if (batch.length >= LISTED_AT_ONCE) await readBatch();
    }
  }
  await readBatch();
  progress.end();
  return { claims, segments, readUntil, hasSegments };
}

/**
 * Leaves out the long segments whose names don't contain the id in their first line. Uploads without an idempotency key
 * write such segments, and may share them. An upload with a key has a segment of its own, whose name ends with the id.
 */
async function withoutShared(bucket: Bucket, segments: readonly ListedObject[], signal: AbortSignal): Promise<ListedObject[]> {
  const shared = new Set<string>();
  await eachOf(segments.filter(({ size }) => size > LONG_BYTES), async ({ key }) => {
    signal.throwIfAborted();
    const begin: Uint8Array[] = [];
    for await (const piece of (await bucket.open(key, { first: 0, last: BEGIN_BYTES - 1 })) ?? []) begin.push(piece);
    if (!Buffer.concat(begin).includes(uploadIdIn(key))) shared.add(key);
  });
  return segments.filter(({ key }) => !shared.has(key));
}
