import type { BucketEnvironment } from '../configuration/storage.js';
import { EnvironmentError } from '../configuration/variables.js';
import type { Bucket } from '../ingestion/adapters/out/object-storage/bucket.js';

/**
 * Opens the bucket that the environment selects, even if its store is unhealthy. Loads only the SDK of that store.
 *
 * @param maxUploadBytes the largest size of one object, in bytes.
 * @throws EnvironmentError when the account URL or the connection string of Azure is malformed.
 */
export async function openBucket(environment: BucketEnvironment, maxUploadBytes: number): Promise<Bucket> {
  switch (environment.adapter) {
    case 's3': {
      const { S3Bucket } = await import('../ingestion/adapters/out/object-storage/s3/s3.bucket.js');
      return new S3Bucket({ ...environment, maxUploadBytes });
    }
    case 'azure': {
      const { AzureBlobBucket } = await import('../ingestion/adapters/out/object-storage/azure-blob/azure-blob.bucket.js');
      try {
        return new AzureBlobBucket({ ...environment, maxUploadBytes });
      } catch {
        // The SDK's error isn't passed on, because its message may contain the account's key.
        throw new EnvironmentError([`${'url' in environment.account ? 'AZURE_STORAGE_ACCOUNT_URL' : 'AZURE_STORAGE_CONNECTION_STRING'}: must be as Azure shows it`]);
      }
    }
  }
}
