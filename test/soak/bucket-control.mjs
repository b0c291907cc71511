// A bare HTTP server, whose latencies show how fast the machine and its store are. It answers `GET /stored` after reading
// an object of a few KiB, and `POST /stored` after writing its body to a new object, both in the service's bucket.
import { randomBytes, randomUUID } from 'node:crypto';
import { GetObjectCommand, PutObjectCommand } from '@aws-sdk/client-s3';
import { Bucket, client } from '../../bench/object-storage/competitors/bucket.mjs';
import { answerSmallJson } from '../../bench/uploads/competitors/small-json.mjs';
import { listenAsControl } from './listen-as-control.mjs';

const STORED = 'control/stored';
await client.send(new PutObjectCommand({ Bucket, Key: STORED, Body: randomBytes(2 * 1024).toString('hex') }));

listenAsControl({
  fetch: async () => {
    const { Body } = await client.send(new GetObjectCommand({ Bucket, Key: STORED }));
    return Body.transformToByteArray();
  },
  write: answerSmallJson(async (additionalData) => {
    const Body = `${JSON.stringify({ additional_data: additionalData })}\n`;
    await client.send(new PutObjectCommand({ Bucket, Key: `control/${randomUUID()}`, Body, IfNoneMatch: '*' }));
  }),
});
