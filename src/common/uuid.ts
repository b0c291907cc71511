import { randomFillSync } from 'node:crypto';
import { v7 } from 'uuid';

const RANDOM_BYTES = 16;
/** Random bytes for 256 ids, drawn at once, because a draw costs more than the rest of creating an id. */
const pool = new Uint8Array(RANDOM_BYTES * 256);
let used = pool.length;

/** A UUID version 7 (RFC 9562), which sorts by the given time. */
export function uuidAt(time: Date): string {
  if (used === pool.length) {
    randomFillSync(pool);
    used = 0;
  }
  const random = pool.subarray(used, (used += RANDOM_BYTES));
  return v7({ msecs: time.getTime(), random });
}
