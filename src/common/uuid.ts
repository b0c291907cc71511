import { randomFillSync } from 'node:crypto';
import { v7 } from 'uuid';

const RANDOM_BYTES = 16;
/** Random bytes for 256 ids, drawn at once, because a draw costs more than the rest of creating an id. */
const pool = new Uint8Array(RANDOM_BYTES * 256);
let used = pool.length;

/**
 * A UUID version 7 (RFC 9562), which sorts by the given time.
 *
 * @param count by which UUIDs of the same millisecond sort. Random without it.
 */
export function uuidAt(time: Date, count?: number): string {
  if (used === pool.length) {
    randomFillSync(pool);
    used = 0;
  }
  const random = pool.subarray(used, (used += RANDOM_BYTES));
  return v7({ msecs: time.getTime(), random, ...(count !== undefined && { seq: count }) });
}

/** The time in a version 7 UUID, in milliseconds since 1970 (RFC 9562, 5.7). NaN for a text that doesn't begin like one. */
export const timeOfUuid = (uuid: string): number =>
  /^[0-9a-f]{8}-[0-9a-f]{4}-7/.test(uuid) ? parseInt(uuid.slice(0, 8) + uuid.slice(9, 13), 16) : Number.NaN;
