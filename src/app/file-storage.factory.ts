import type { DynamicModule } from '@nestjs/common';
import { type BucketObservers, openBucket } from './bucket.factory.js';
import type { Observer } from '../common/observer.js';
import type { ProviderDefinition } from '../common/provider-definition.js';
import type { Environment } from '../configuration/service.js';
import { EnvironmentError } from '../configuration/variables.js';
import { LocalDiskFileStorage } from '../ingestion/adapters/out/local-disk/local-disk.file-storage.adapter.js';
import type { IndexFlush } from '../ingestion/application/ports/index-flush.js';
import type { FileStorage } from '../ingestion/application/ports/file-storage.port.js';
import type { StorageLogger } from '../ingestion/application/storage-logger.js';
import { measuredBucket } from '../operations/metrics/measured-calls.js';
import { MeasuredFileStorage, measuredFlush } from '../operations/metrics/measured-file-storage.js';
import type { Tracing } from '../operations/tracing/tracing.js';
import { Metrics } from '../operations/metrics/metrics.js';
import type { ProvidedReplacement } from './replacement.js';
import { contextOf, createAdapter, type FileStorageAdapter, loadAdapter } from './team-adapter.js';

interface StoreOptions {
  readonly onFlush?: (flush: IndexFlush) => void;
  readonly bucketObservers?: BucketObservers;
  readonly observeWait?: Observer;
  readonly logger?: StorageLogger;
}

/**
 * Opens the file storage that FILE_STORAGE selects, except that of a team's module. The caller must close it.
 *
 * @throws EnvironmentError when FILE_STORAGE names a team's module; errors of opening the file storage.
 */
export async function openFileStorage(
  { fileStorage, dataDirectory, maxUploadBytes }: Environment,
  { bucketObservers, ...options }: StoreOptions = {},
): Promise<FileStorage & { close(): Promise<void> }> {
  switch (fileStorage.adapter) {
    case 'local':
      return LocalDiskFileStorage.open({ directory: dataDirectory, ...options });
    case 's3':
    case 'azure': {
      const { ObjectStorageFileStorage } = await import('../ingestion/adapters/out/object-storage/object-storage.file-storage.adapter.js');
      return new ObjectStorageFileStorage({ bucket: await openBucket(fileStorage, maxUploadBytes, bucketObservers), ...options });
    }
    case 'module':
      throw new EnvironmentError(["FILE_STORAGE: must be one of the service's own adapters here, not a module"]);
  }
}

async function openAny(environment: Environment, metrics: Metrics, tracing?: Tracing): Promise<FileStorage> {
  const { fileStorage } = environment;
  if (fileStorage.adapter !== 'module') {
    return openFileStorage(environment, {
      onFlush: measuredFlush(metrics),
      bucketObservers: traced(measuredBucket(metrics), tracing),
      ...(tracing && { observeWait: tracing.observe }),
    });
  }
  return createAdapter(fileStorage, await loadAdapter<FileStorageAdapter<never>>(fileStorage), contextOf(environment), ['store', 'checkHealth']);
}

const traced = ({ observeCall, onRetry }: BucketObservers, tracing?: Tracing): BucketObservers => ({
  observeCall: tracing ? (operation, call) => tracing.observe(`Bucket.${operation}`, () => observeCall(operation, call)) : observeCall,
  onRetry,
});

export interface ChosenFileStorage {
  readonly imports: DynamicModule[];
  readonly fileStorage: ProviderDefinition<FileStorage>;
}

/** Chooses the file storage: the replacement if there is one, otherwise the one that FILE_STORAGE selects. */
export function fileStorageFor(environment: Environment, replacement?: ProvidedReplacement, tracing?: Tracing): ChosenFileStorage {
  if (replacement) {
    return {
      imports: [replacement.module],
      fileStorage: {
        inject: [replacement.token, Metrics],
        useFactory: (storage: FileStorage, metrics: Metrics) => new MeasuredFileStorage(storage, metrics, 'provider'),
      },
    };
  }
  return {
    imports: [],
    fileStorage: {
      inject: [Metrics],
      useFactory: async (metrics: Metrics) => new MeasuredFileStorage(await openAny(environment, metrics, tracing), metrics),
    },
  };
}
