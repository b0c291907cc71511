import type { InMemoryBucket } from '../../src/testing/in-memory.bucket.js';

/**
 * Counts the requests to the bucket (`requests`), those of them that list (`listings`), and the rounds in which they are
 * answered (`rounds`). All requests that wait at the same time are answered in one round, so `rounds` counts requests
 * that had to follow each other. A round lasts until the answers of the one before are surely read.
 */
export function countRequests(bucket: InMemoryBucket): { requests: number; listings: number; rounds: number } {
  const count = { requests: 0, listings: 0, rounds: 0 };
  let round: Promise<void> | undefined;
  bucket.before = (operation) => {
    count.requests += 1;
    if (operation === 'list') count.listings += 1;
    return (round ??= (async () => {
      for (let turn = 0; turn < 1_000; turn++) await new Promise(setImmediate);
      count.rounds += 1;
      round = undefined;
    })());
  };
  return count;
}
