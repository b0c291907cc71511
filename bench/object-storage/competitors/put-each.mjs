// The service with another store, which PUTs the index line of each upload as a separate object.
import { PutObjectCommand } from '@aws-sdk/client-s3';
import { indexLine, segmentDirectory } from '../../../dist/ingestion/domain/layout.js';
import { serveWithStore } from '../../uploads/competitors/service-with-store.mjs';
import { Bucket, client } from './bucket.mjs';

await serveWithStore(async () => ({
  async store({ conclude }) {
    const upload = await conclude(null);
    const Key = `${segmentDirectory(upload.kind, upload.receivedAt)}/${upload.uploadId}.ndjson`;
    await client.send(new PutObjectCommand({ Bucket, Key, Body: `${indexLine(upload)}\n`, IfNoneMatch: '*' }));
    return upload;
  },
}));
