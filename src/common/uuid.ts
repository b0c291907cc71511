import { randomFillSync } from 'node:crypto';
import { v7 } from 'uuid';

const UUID_BYTES = 16;
/** Random bytes for 256 UUIDs. A call of the system's random source costs as much as all else that a UUID takes. */
const pool = new Uint8Array(256 * UUID_BYTES);
let used = pool.length;

/**
 * Creates a UUID version 7 (RFC 9562). Such UUIDs sort by their `time`.
 *
 * @param count orders the UUIDs of the same millisecond. Default: a random order.
 */
export function uuidAt(time: Date, count?: number): string {
  if (used === pool.length) {
    randomFillSync(pool);
    used = 0;
  }
  const random = pool.subarray(used, (used += UUID_BYTES));
  return v7({ msecs: time.getTime(), random, ...(count !== undefined && { seq: count }) });
}

/**
 * The time in a version 7 UUID (RFC 9562, section 5.7), in milliseconds since 1970. NaN for a text that doesn't begin
 * like such a UUID in lower case.
 */
export const timeOfUuid = (uuid: string): number =>
  /^[0-9a-f]{8}-[0-9a-f]{4}-7/.test(uuid) ? parseInt(uuid.slice(0, 8) + uuid.slice(9, 13), 16) : Number.NaN;
