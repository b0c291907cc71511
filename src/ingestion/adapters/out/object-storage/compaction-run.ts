import type { Bucket } from './bucket.js';
import { compactDay, type DayReport } from './compaction.js';
import { removeOldClaims } from './old-claims.js';
import type { Day } from './segment-names.js';

export interface CompactionFailure {
  readonly path: string;
  readonly error: unknown;
}

/**
 * Compacts days one after the other, then removes old claims of idempotency keys. Yields for each day its report or its
 * failure, and then the failure to remove claims, if any. Can be iterated only once.
 */
export class CompactionRun implements AsyncIterable<DayReport | CompactionFailure> {
  readonly totals = { sources: 0, targets: 0, bytes: 0, fences: 0, claims: 0, malformed: 0, underWay: 0, failed: 0 };
  readonly progress = { days: 0, segmentsRead: 0 };

  constructor(
    private readonly bucket: Bucket,
    readonly days: readonly Day[],
    readonly dryRun: boolean,
  ) {}

  async *[Symbol.asyncIterator](): AsyncGenerator<DayReport | CompactionFailure> {
    const { bucket, dryRun, totals, progress } = this;
    const onRead = () => {
      progress.segmentsRead += 1;
    };
    for (const { kind, date } of this.days) {
      const compacting = compactDay(bucket, kind, date, { dryRun, onRead });
      yield await this.outcome(`uploads/kind=${kind}/date=${date}`, compacting.then((report) => this.count(report)));
      progress.days += 1;
    }
    const removing = removeOldClaims(bucket, { dryRun }).then((count) => void (totals.claims = count));
    const failure = await this.outcome('idempotency/', removing);
    if (failure) yield failure;
  }

  private outcome<T>(path: string, action: Promise<T>): Promise<T | CompactionFailure> {
    return action.catch((error: unknown) => {
      this.totals.failed += 1;
      return { path, error };
    });
  }

  private count(report: DayReport): DayReport {
    const { totals } = this;
    totals.sources += report.sources;
    totals.targets += report.targets;
    totals.bytes += report.bytes;
    totals.fences += report.fences;
    totals.malformed += report.malformed.length;
    totals.underWay += report.isBusy ? 1 : 0;
    return report;
  }
}
