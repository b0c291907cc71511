import { join } from 'node:path';
import { isVersitygwAvailable, startVersitygw } from '../servers/versitygw.mjs';

const BUCKET = 'load-data';
const PREFIX = 'some/where';

export const missingBucket = () => (isVersitygwAvailable() ? undefined : 'versitygw is not installed, and there is no Go to install it with');

/**
 * Runs `work` with an empty bucket. Afterwards removes the bucket and its store, even if `work` fails. The store keeps
 * acknowledged objects when it is killed, but not when the power is cut, because it doesn't flush.
 *
 * @template T
 * @param {(bucket: { server: import('../servers/versitygw.mjs').Versitygw, bucket: string, prefix: string,
 *   variables: Record<string, string>, directory: string }) => Promise<T>} work server: the store. bucket: the bucket's
 *   name. prefix: the prefix of all keys. variables: the environment of a service that uses the bucket. directory: the
 *   folder that has each object of the service as a file, whose path is the object's key.
 * @param {import('../servers/versitygw.mjs').VersitygwOptions} [options]
 * @returns {Promise<T>}
 */
export async function withBucket(work, options) {
  const server = await startVersitygw(options);
  try {
    await server.createBucket(BUCKET);
    const variables = { FILE_STORAGE: 's3', S3_PREFIX: PREFIX, ...server.environment(BUCKET) };
    return await work({ server, bucket: BUCKET, prefix: PREFIX, variables, directory: join(server.directory, BUCKET, PREFIX) });
  } finally {
    await server.stop();
  }
}
