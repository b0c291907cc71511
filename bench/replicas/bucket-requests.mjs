/** For each call of the service to a bucket, the kind of request that it causes, as S3 and its price list name it. */
const KINDS = { create: 'PUT', replace: 'PUT', upload: 'PUT', read: 'GET', open: 'GET', list: 'LIST', listDirectories: 'LIST', remove: 'DELETE' };

/**
 * Counts one request to the bucket for each call, which holds for files that are sent in one part and for lists of one
 * page.
 *
 * @param {readonly { url: string }[]} replicas
 * @returns {Promise<Record<'uploads' | 'PUT' | 'GET' | 'LIST' | 'DELETE', number>>} since the start of the replicas.
 */
export async function countRequests(replicas) {
  const counts = { uploads: 0, PUT: 0, GET: 0, LIST: 0, DELETE: 0 };
  for (const { url } of replicas) {
    const metrics = await (await fetch(`${url}/metrics`)).text();
    for (const [, value] of metrics.matchAll(/^load_data_uploads_total\{.*\} (\d+)$/gm)) counts.uploads += Number(value);
    for (const [, operation, value] of metrics.matchAll(/^load_data_bucket_calls_total\{operation="(\w+)".*\} (\d+)$/gm)) {
      if (operation in KINDS) counts[KINDS[operation]] += Number(value);
    }
    const repeated = /^load_data_bucket_retries_total (\d+)$/m.exec(metrics)?.[1];
    if (repeated !== '0') throw new Error(`${repeated} requests to the bucket were repeated, which the counts don't include.`);
  }
  return counts;
}
