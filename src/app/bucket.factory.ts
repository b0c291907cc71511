import type { BucketEnvironment } from '../configuration/storage.js';
import { EnvironmentError } from '../configuration/variables.js';
import type { Observer } from '../common/observer.js';
import type { Bucket } from '../ingestion/adapters/out/object-storage/bucket.js';

export interface BucketObservers {
  readonly observeCall: Observer;
  readonly onRetry: () => void;
}

/**
 * Opens the bucket that the environment selects. Doesn't check whether the bucket can be reached.
 *
 * @param maxUploadBytes the maximum length of an upload. The bucket doesn't enforce it, but derives the length of an
 * upload's parts from it.
 * @throws EnvironmentError when the account URL or the connection string of Azure is malformed.
 */
export async function openBucket(environment: BucketEnvironment, maxUploadBytes: number, observers?: BucketObservers): Promise<Bucket> {
  const bucket = await openUnobserved(environment, maxUploadBytes, observers?.onRetry);
  if (!observers) return bucket;
  const { ObservedBucket } = await import('../ingestion/adapters/out/object-storage/observed-bucket.js');
  return new ObservedBucket(bucket, observers.observeCall);
}

async function openUnobserved(environment: BucketEnvironment, maxUploadBytes: number, onRetry?: () => void): Promise<Bucket> {
  switch (environment.adapter) {
    case 's3': {
      const { S3Bucket } = await import('../ingestion/adapters/out/object-storage/s3/s3.bucket.js');
      return new S3Bucket({ ...environment, maxUploadBytes, ...(onRetry && { onRetry }) });
    }
    case 'azure': {
      const { AzureBlobBucket } = await import('../ingestion/adapters/out/object-storage/azure-blob/azure-blob.bucket.js');
      try {
        return new AzureBlobBucket({ ...environment, maxUploadBytes, ...(onRetry && { onRetry }) });
      } catch {
        // The error of Azure's SDK isn't passed on as the cause: its message may contain the storage account's key.
        throw new EnvironmentError([`${'url' in environment.account ? 'AZURE_STORAGE_ACCOUNT_URL' : 'AZURE_STORAGE_CONNECTION_STRING'}: must be as Azure shows it`]);
      }
    }
  }
}
