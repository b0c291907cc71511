import { S3Client } from '@aws-sdk/client-s3';

const { S3_BUCKET, S3_ENDPOINT, S3_REGION } = process.env;

export const Bucket = S3_BUCKET;

/** A client of the S3 store that the environment names, with an unlimited number of connections. */
export const client = new S3Client({
  endpoint: S3_ENDPOINT,
  region: S3_REGION,
  forcePathStyle: true,
  expectContinueHeader: false,
  requestHandler: { httpsAgent: { maxSockets: Infinity } },
});
