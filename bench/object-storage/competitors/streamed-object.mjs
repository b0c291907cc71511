// A program that receives uploads with Node's own HTTP server, and streams each body into the AWS SDK's `Upload` with
// parts of 5 MiB. It computes no sha-256 of the file; the SDK computes a CRC-32 of each part, and a sha-256 for its
// signature.
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { Upload } from '@aws-sdk/lib-storage';
import { listen } from '../../uploads/competitors/listen.mjs';
import { Bucket, client } from './bucket.mjs';

const server = createServer((request, response) => {
  const params = { Bucket, Key: `files/${randomUUID()}`, Body: request };
  new Upload({ client, params }).done().then(
    () => response.end('{"status":"success","message":"Data uploaded successfully."}'),
    (error) => {
      console.error(error);
      response.writeHead(500).end();
    },
  );
});
listen(server);
