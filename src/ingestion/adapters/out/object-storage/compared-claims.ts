import { createHash } from 'node:crypto';
import { Turns } from '../../../../common/turns.js';
import { IDEMPOTENCY_PERIOD_MS } from '../../../domain/idempotency.js';
import type { StorageLogger } from '../../../application/storage-logger.js';
import type { Bucket } from './bucket.js';
import { CLAIMS, CLAIMS_COMPARED } from './keys.js';

const NUMBER_BYTES = 6;
const RECORD_BYTES = 2 * NUMBER_BYTES;
const DIGEST_BYTES = 32;

export interface ComparedClaims {
  /**
   * The next comparison of claims with index lines usually reads only segments that were written at this time or later,
   * in milliseconds since 1970 by the store's clock.
   */
  readonly readUntil: number;
  /**
   * When the segment that needs a claim was written, in milliseconds since 1970 by the store's clock. The keys of the
   * map are the numbers of the claims (`claimNumber`).
   */
  readonly claims: Map<number, number>;
}

export const nothingCompared = (): ComparedClaims => ({ readUntil: 0, claims: new Map() });

/**
 * The number of a claim: the first 48 bits of the hash in its key, which take less memory than the key. The probability
 * that any two of a million claims have the same number is about 1 in 500.
 */
export const claimNumber = (key: string): number => parseInt(key.slice(CLAIMS.length, CLAIMS.length + 2 * NUMBER_BYTES), 16);

/**
 * Reads the last saved result of a comparison of claims with index lines, without the claims of lines that are at least
 * 24 hours old. Empty if nothing was saved, and, with a warning, if the saved object is damaged or has a `readUntil` in
 * the future. Throws errors of the bucket.
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

/** Saves which claims the lines need, for the next comparison of any process. Throws errors of the bucket. */
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
