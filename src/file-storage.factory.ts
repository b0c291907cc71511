import { Logger } from '@nestjs/common';
import type { ProviderDefinition } from './common/provider-definition.js';
import type { Environment } from './environment.js';
import { LocalDiskFileStorage } from './ingestion/adapters/out/local-disk/local-disk.file-storage.adapter.js';
import type { FileStorage } from './ingestion/application/ports/file-storage.port.js';
import { MeasuredFileStorage } from './operations/metrics/measured-file-storage.js';
import { Metrics } from './operations/metrics/metrics.js';

const ADAPTERS: Record<Environment['fileStorage'], (environment: Environment, metrics: Metrics) => Promise<FileStorage>> = {
  local: ({ dataDirectory }, metrics) =>
    LocalDiskFileStorage.open({
      directory: dataDirectory,
      logger: new Logger(LocalDiskFileStorage.name),
      onFlush: ({ lines, seconds, ok }) => {
        metrics.flushes.inc({ outcome: ok ? 'ok' : 'failed' });
        metrics.flushedLines.inc(lines);
        metrics.flushSeconds.observe(seconds);
      },
    }),
};

/** The file storage that the environment chose. */
export const fileStorageFor = (environment: Environment): ProviderDefinition<FileStorage> => ({
  inject: [Metrics],
  useFactory: async (metrics: Metrics) =>
    new MeasuredFileStorage(await ADAPTERS[environment.fileStorage](environment, metrics), metrics),
});
