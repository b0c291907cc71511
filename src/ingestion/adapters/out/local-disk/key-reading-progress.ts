import type { StorageLogger } from '../../../application/storage-logger.js';
import type { ListedSegment } from './key-entries.js';

const PROGRESS_EVERY_MS = 2_000;
const MIB = 1024 * 1024;

/** Logs the progress of reading idempotency keys from segments, at most every two seconds. */
export class KeyReadingProgress {
  private readonly began = performance.now();
  private logged = this.began;
  private readonly total: number;
  private done = 0;

  constructor(
    private readonly logger: StorageLogger,
    segments: readonly ListedSegment[],
  ) {
    this.total = segments.reduce((total, { length }) => total + length, 0);
  }

  /** Call `add` with the number of bytes of segments that were read since the last call. */
  add(bytes: number): void {
    this.done += bytes;
    const now = performance.now();
    if (now - this.logged < PROGRESS_EVERY_MS) return;
    this.logged = now;
    this.logger.log?.(`Reading idempotency keys from the index lines: ${mib(this.done)} of ${mib(this.total)} MiB.`);
  }

  /** Logs that all keys are read, unless reading took so little time that no progress was logged. */
  end(): void {
    if (this.logged === this.began) return;
    const seconds = Math.round((performance.now() - this.began) / 1000);
    this.logger.log?.(`Reading idempotency keys from the index lines: done, ${mib(this.total)} MiB in ${seconds} s.`);
  }
}

const mib = (bytes: number): number => Math.round(bytes / MIB);
