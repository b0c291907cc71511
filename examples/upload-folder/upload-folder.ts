// Uploads all files of a folder as historical load data. If it is run again within 24 hours, for example after a
// failure, it stores nothing twice.
//
//   npm install && npm run build
//   node dist/upload-folder.js http://127.0.0.1:3000 acme-energy 'Landis+Gyr' ./load-files
//
// TOKEN in the environment is sent as the bearer token.
import { createHash } from 'node:crypto';
import { createReadStream, openAsBlob } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { LoadDataClient, LoadDataError } from 'load-data-service/client';

const [baseUrl, customerId, manufacturer, folder] = process.argv.slice(2);
if (baseUrl === undefined || customerId === undefined || manufacturer === undefined || folder === undefined) {
  throw new Error('usage: upload-folder.js <base URL> <customer id> <manufacturer> <folder>');
}
const { TOKEN: token } = process.env;
const client = new LoadDataClient({ baseUrl, ...(token !== undefined && { token }) });

/** The idempotency key of a file. The same bytes under the same name have the same key, so they are stored once. */
async function keyOf(filename: string, path: string): Promise<string> {
  const digest = createHash('sha256');
  for await (const chunk of createReadStream(path)) digest.update(chunk as Buffer);
  return createHash('sha256').update(`${filename}\0`).update(digest.digest()).digest('hex');
}

const entries = await readdir(folder, { withFileTypes: true });
for (const filename of entries.filter((entry) => entry.isFile()).map(({ name }) => name).sort()) {
  const path = join(folder, filename);
  try {
    const file = await openAsBlob(path);
    const { uploadId, replayed } = await client.uploadHistorical({ customerId, manufacturer, filename, file, idempotencyKey: await keyOf(filename, path) });
    console.log(`${filename}: ${uploadId}${replayed ? ' (stored before)' : ''}`);
  } catch (error) {
    if (!(error instanceof LoadDataError)) throw error;
    console.error(`${path}: ${error.message}`);
    process.exit(1);
  }
}
