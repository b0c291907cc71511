import { createHash } from 'node:crypto';
import { Turns } from '../../../../common/turns.js';
import { IDEMPOTENCY_PERIOD_MS } from '../../../domain/idempotency.js';
import type { StorageLogger } from '../../../application/storage-logger.js';
import type { Bucket } from './bucket.js';
import { CLAIMS, CLAIMS_COMPARED } from './keys.js';

const NUMBER_BYTES = 6;
const RECORD_BYTES = 2 * NUMBER_BYTES;
const DIGEST_BYTES = 32;

/** The claims of idempotency keys that must exist, according to the index lines that were read. */
export interface ComparedClaims {
  /**
   * The next comparison usually reads only segments that were written at this time or later. In milliseconds since
   * 1970, by the store's clock.
   */
  readonly readUntil: number;
  /**
   * The claims that the lines of the last 24 hours need, by `claimNumber`. The value is the time at which the segment
   * with the line was written, in milliseconds since 1970 by the store's clock.
   */
  readonly claims: Map<number, number>;
}

export const nothingCompared = (): ComparedClaims => ({ readUntil: 0, claims: new Map() });

/**
 * The first 48 bits of the hash in a claim's key, as a number that takes less memory than the key. The probability that
 * any two of a million claims have the same number is about 1 in 500.
 */
export const claimNumber = (key: string): number => parseInt(key.slice(CLAIMS.length, CLAIMS.length + 2 * NUMBER_BYTES), 16);

/**
 * Reads the result that `saveCompared` saved, without the claims of lines that were written at least 24 hours ago. The
 * result is empty if nothing was saved. It is also empty, with a warning, if the saved object is damaged, or has a
 * `readUntil` in the future by the store's clock. Throws errors of the bucket.
 */
export async function readCompared(bucket: Bucket, logger: StorageLogger): Promise<ComparedClaims> {
  const saved = await bucket.read(CLAIMS_COMPARED);
  if (!saved) return nothingCompared();
  const records = saved.bytes.subarray(0, -DIGEST_BYTES);
  const readUntil = records.length >= RECORD_BYTES && digestOf(records).equals(saved.bytes.subarray(-DIGEST_BYTES)) ? records.readUIntBE(0, NUMBER_BYTES) : Infinity;
  if (readUntil > bucket.storeTime) {
    logger.warn(`${CLAIMS_COMPARED} is damaged. All lines of the last 24 hours are compared with ${CLAIMS} again.`);
    return nothingCompared();
  }
  const claims = new Map<number, number>();
  const turns = new Turns();
  for (let at = RECORD_BYTES; at < records.length; at += RECORD_BYTES) {
    if (turns.isOver) await turns.next();
    const writtenAt = records.readUIntBE(at + NUMBER_BYTES, NUMBER_BYTES);
    if (bucket.storeTime - writtenAt < IDEMPOTENCY_PERIOD_MS) claims.set(records.readUIntBE(at, NUMBER_BYTES), writtenAt);
  }
  return { readUntil, claims };
}

/** Saves the result of a comparison for the next comparison of any process. Throws errors of the bucket. */
export async function saveCompared(bucket: Bucket, { readUntil, claims }: ComparedClaims): Promise<void> {
  const records = Buffer.alloc(RECORD_BYTES * (1 + claims.size));
  records.writeUIntBE(readUntil, 0, NUMBER_BYTES);
  let at = RECORD_BYTES;
  const turns = new Turns();
  for (const [claim, writtenAt] of claims) {
    if (turns.isOver) await turns.next();
    records.writeUIntBE(claim, at, NUMBER_BYTES);
    records.writeUIntBE(writtenAt, at + NUMBER_BYTES, NUMBER_BYTES);
    at += RECORD_BYTES;
  }
  await bucket.replace(CLAIMS_COMPARED, Buffer.concat([records, digestOf(records)]));
}

const digestOf = (bytes: Buffer): Buffer => createHash('sha256').update(bytes).digest();
