import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { v7 as uuidV7 } from 'uuid';
import { startVersitygw } from '../../test/servers/versitygw.mjs';
import { DAY_MS, fillStore } from './filled-store.mjs';

const BUCKET = 'load-data';
/** Compaction gives a segment the time of its work, at least ten minutes after the day. */
const COMPACTED_AFTER_MS = DAY_MS / 24;

/**
 * Starts an S3 server with an empty bucket. Ends it with the services.
 *
 * @returns {Promise<Record<string, string>>} the variables of a service that stores its uploads in the bucket.
 */
export const startBucket = async (services) => variablesFor(await startServer(services));

/**
 * Starts an S3 server with a bucket that has the index lines of `fillStore`, as compaction leaves them. Ends it with
 * the services.
 *
 * @returns the variables of a service that stores its uploads in the bucket, and what `fillStore` returns.
 */
export async function fillBucket(services, shape) {
  const server = await startServer(services);
  const directory = join(services.directory, 'lines');
  const filled = await fillStore(directory, shape);
  await server.replaceObjects(BUCKET, segmentsIn(directory));
  return { variables: variablesFor(server), ...filled };
}

async function startServer(services) {
  const server = await startVersitygw();
  services.atEnd(() => server.stop());
  await server.createBucket(BUCKET);
  return server;
}

const variablesFor = (server) => ({ FILE_STORAGE: 's3', ...server.environment(BUCKET) });

function* segmentsIn(directory) {
  for (const entry of readdirSync(directory, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue;
    const path = join(entry.parentPath, entry.name);
    const [, folder, date] = /(uploads\/.*date=(.*))$/.exec(entry.parentPath) ?? [];
    yield [`${folder}/${uuidV7({ msecs: Date.parse(date) + DAY_MS + COMPACTED_AFTER_MS })}.ndjson`, readFileSync(path)];
  }
}
