import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { S3Bucket, type S3BucketOptions } from '../../src/ingestion/adapters/out/object-storage/s3/s3.bucket.js';

/** A bucket at a server of the test, which is listening on 127.0.0.1. */
export const s3BucketAt = (server: Server, options: Partial<S3BucketOptions> = {}): S3Bucket =>
  new S3Bucket({
    bucket: 'load-data',
    prefix: 'data',
    region: 'us-east-1',
    endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    forcePathStyle: true,
    timeoutMs: 10_000,
    maxUploadBytes: 1,
    credentials: { accessKeyId: 'id', secretAccessKey: 'secret' },
    ...options,
  });
