import type { BucketEnvironment } from '../configuration/storage.js';
import { EnvironmentError } from '../configuration/variables.js';
import type { Bucket } from '../ingestion/adapters/out/object-storage/bucket.js';

/**
 * Opens the bucket (S3 or Azure Blob Storage) that the environment selects, even if the store is unhealthy. Loads only
 * the SDK of the selected store.
 *
 * @param maxUploadBytes the length of the longest file that may be uploaded to the bucket, in bytes.
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
        // The error of Azure's SDK isn't passed on as the cause, because its message may contain the key of the storage
        // account.
        throw new EnvironmentError([`${'url' in environment.account ? 'AZURE_STORAGE_ACCOUNT_URL' : 'AZURE_STORAGE_CONNECTION_STRING'}: must be as Azure shows it`]);
      }
    }
  }
}
