import type { Environment } from './environment.js';
import type { Bucket } from './ingestion/adapters/out/object-storage/bucket.js';

/** By FILE_STORAGE; the local disk is none. */
const BUCKETS: Partial<Record<string, (environment: Environment) => Promise<Bucket>>> = {};

/**
 * The bucket that the environment chose; whoever opens it closes it.
 *
 * @throws Error when FILE_STORAGE names no bucket.
 */
export async function openBucket(environment: Environment): Promise<Bucket> {
  const open = BUCKETS[environment.fileStorage];
  if (!open) throw new Error(`FILE_STORAGE: "${environment.fileStorage}" is no bucket`);
  return open(environment);
}
