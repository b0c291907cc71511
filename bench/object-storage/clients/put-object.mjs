// PUTs objects with one index line each, like the service, one after another, and prints the outcome as JSON.
import { randomUUID } from 'node:crypto';
import { PutObjectCommand } from '@aws-sdk/client-s3';
import { figuresOf } from '../../support/latencies.mjs';
import { indexLine, segmentDirectory } from '../../../dist/ingestion/domain/layout.js';
import { SMALL_TEXT } from '../../uploads/loads.mjs';
import { Bucket, client } from '../competitors/bucket.mjs';

const { warmUpSeconds, seconds } = JSON.parse(process.argv[2]);

async function put(duration) {
  const latencies = [];
  const others = {};
  const began = performance.now();
  while (performance.now() - began < duration * 1000) {
    const input = someSegment();
    const sent = performance.now();
    try {
      await client.send(new PutObjectCommand(input));
      latencies.push(performance.now() - sent);
    } catch ({ name }) {
      others[name] = (others[name] ?? 0) + 1;
    }
  }
  return { figures: figuresOf(latencies, (performance.now() - began) / 1000), others };
}

function someSegment() {
  const [uploadId, receivedAt] = [randomUUID(), new Date()];
  const named = { kind: 'historical', customerId: 'acme-energy', filename: 'load.csv', manufacturer: 'acme' };
  const line = indexLine({ ...named, uploadId, receivedAt, idempotencyKey: null, additionalData: SMALL_TEXT, content: null });
  return { Bucket, Key: `${segmentDirectory(named.kind, receivedAt)}/${uploadId}.ndjson`, Body: `${line}\n` };
}

await put(warmUpSeconds);
console.log(JSON.stringify(await put(seconds)));
