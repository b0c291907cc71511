import { MIB } from '../../../../common/sizes.js';
import { LoggedProgress } from '../../../application/logged-progress.js';
import type { StorageLogger } from '../../../application/storage-logger.js';
import type { ListedSegment } from './key-entries.js';

const mib = (bytes: number): number => Math.round(bytes / MIB);

/** Logs the progress of reading segments, if it takes over two seconds. `add` takes a number of newly read bytes. */
export function keyReadingProgress(logger: StorageLogger, segments: readonly ListedSegment[]): LoggedProgress {
  const total = segments.reduce((sum, { length }) => sum + length, 0);
  return new LoggedProgress(logger, {
    work: 'Reading idempotency keys from the index lines',
    soFar: (bytes) => `${mib(bytes)} of ${mib(total)} MiB`,
    inAll: () => `done, ${mib(total)} MiB`,
  });
}
