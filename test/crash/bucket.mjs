import { join } from 'node:path';
import { isVersitygwAvailable, startVersitygw } from '../servers/versitygw.mjs';

const BUCKET = 'load-data';
const PREFIX = 'some/where';

/** The reason why no bucket is available here; undefined if one is. */
export const missingBucket = () => (isVersitygwAvailable() ? undefined : 'versitygw is not installed, and there is no Go to install it with');

/**
 * Runs `work` with an empty bucket, and removes the bucket and its store afterwards in any case. The store keeps
 * acknowledged objects when it is killed, but not through a power cut, because it doesn't flush.
 *
 * @template T
 * @param {(bucket: { server: import('../servers/versitygw.mjs').Versitygw, variables: Record<string, string>,
 *   directory: string }) => Promise<T>} work variables: the environment of a service that uses the bucket; directory:
 *   the folder that has each object as a file at its key.
 * @returns {Promise<T>}
 */
export async function withBucket(work) {
  const server = await startVersitygw();
  try {
    await server.createBucket(BUCKET);
    const variables = { FILE_STORAGE: 's3', S3_PREFIX: PREFIX, ...server.environment(BUCKET) };
    return await work({ server, variables, directory: join(server.directory, BUCKET, PREFIX) });
  } finally {
    await server.stop();
  }
}
