import { join } from 'node:path';
import { isVersitygwAvailable, startVersitygw } from '../servers/versitygw.mjs';

const BUCKET = 'load-data';
const PREFIX = 'some/where';

/** Why there is no bucket to be had here; undefined when there is. */
export const missingBucket = () => (isVersitygwAvailable() ? undefined : 'versitygw is not installed, and there is no Go to install it with');

/**
 * Gives work an empty bucket of a store that acknowledges what survives kills of it (but no power cut: it doesn't flush),
 * and removes both whatever happens.
 *
 * @template T
 * @param {(bucket: { server: import('../servers/versitygw.mjs').Versitygw, variables: Record<string, string>, directory: string }) => Promise<T>} work
 *   variables: what has the service use it; directory: where its objects are, each a file of the name of its key.
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
