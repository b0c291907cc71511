import { type DynamicModule, Logger } from '@nestjs/common';
import { openBucket } from './bucket.factory.js';
import type { ProviderDefinition } from '../common/provider-definition.js';
import type { Environment } from '../configuration/service.js';
import { LocalDiskFileStorage } from '../ingestion/adapters/out/local-disk/local-disk.file-storage.adapter.js';
import type { IndexFlush } from '../ingestion/application/ports/index-flush.js';
import type { FileStorage } from '../ingestion/application/ports/file-storage.port.js';
import { MeasuredFileStorage, measuredFlush } from '../operations/metrics/measured-file-storage.js';
import { Metrics } from '../operations/metrics/metrics.js';
import type { ProvidedReplacement } from './replacement.js';

/**
 * Opens the store that the environment selects. The caller closes it.
 *
 * @param onFlush called after each group commit of index lines.
 */
export async function openFileStorage(
  { fileStorage, dataDirectory, maxUploadBytes }: Environment,
  onFlush: (flush: IndexFlush) => void = () => undefined,
): Promise<FileStorage & { close(): Promise<void> }> {
  switch (fileStorage.adapter) {
    case 'local': {
      const logger = new Logger(LocalDiskFileStorage.name);
      return LocalDiskFileStorage.open({ directory: dataDirectory, logger, onFlush });
    }
    case 's3':
    case 'azure': {
      const { ObjectStorageFileStorage } = await import('../ingestion/adapters/out/object-storage/object-storage.file-storage.adapter.js');
      return new ObjectStorageFileStorage({ bucket: await openBucket(fileStorage, maxUploadBytes), onFlush });
    }
  }
}

export interface ChosenFileStorage {
  /** The modules that the adapter depends on. */
  readonly imports: DynamicModule[];
  readonly fileStorage: ProviderDefinition<FileStorage>;
}

/** The replacement if there is one, otherwise the file storage that the environment selects. */
export function fileStorageFor(environment: Environment, replacement?: ProvidedReplacement): ChosenFileStorage {
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
      useFactory: async (metrics: Metrics) => new MeasuredFileStorage(await openFileStorage(environment, measuredFlush(metrics)), metrics),
    },
  };
}
