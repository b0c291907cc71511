// Uploads with the package's client, in any JavaScript runtime. Prints the receipts, the progress and the errors as
// JSON.
import { LoadDataClient } from 'load-data-service/client';

const [baseUrl, breakingUrl, token] = globalThis.Deno?.args ?? process.argv.slice(2);
const client = new LoadDataClient({ baseUrl, token });
const parameters = { customerId: 'acme energy', manufacturer: 'Landis+Gyr' };
const bytes = Uint8Array.from({ length: 300_000 }, (_, index) => (index * 7) % 256);
const stream = () => new Blob([bytes]).stream();

const progress = [];
const onProgress = ({ sent, total }) => progress.push([sent, total ?? null]);
const upload = (filename, request) => client.uploadHistorical({ ...parameters, filename, ...request });
const receipts = {
  blob: await upload('blob', { file: new Blob([bytes], { type: 'text/csv' }), onProgress }),
  bytes: await upload('bytes', { file: bytes }),
  form: await upload('form', { file: bytes, additionalData: 'Süd' }),
  stream: await upload('stream', { file: stream(), onProgress }),
  opened: await upload('opened', { file: stream, contentType: 'text/csv' }),
};
const json = await upload('json', { additionalData: 'Süd' });

// The first connection to `breakingUrl` breaks in the middle of an upload, so the client must repeat this upload.
const broken = new LoadDataClient({ baseUrl: breakingUrl, token });
receipts.broken = await broken.uploadNowcast({ ...parameters, filename: 'broken', file: stream });

const part = await client.downloadUpload(receipts.bytes.uploadId, { range: '7-9' });
const failing = () =>
  new ReadableStream({
    pull() {
      throw new RangeError('of the caller');
    },
  });
const nameOf = ({ name, status, message }) => ({ name, status, message });
const refusals = {
  refused: await upload('', { file: bytes }).catch(({ name, status, error }) => ({ name, status, error })),
  stream: await upload('failing', { file: failing }).catch(nameOf),
  aborted: await upload('aborted', { file: bytes, signal: AbortSignal.abort() }).catch(({ name }) => ({ name })),
};

console.log(JSON.stringify({ receipts, json, progress: progress.filter(([sent]) => sent === bytes.length), part: [...new Uint8Array(await part.arrayBuffer())], refusals }));
