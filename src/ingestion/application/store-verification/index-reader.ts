import { type Finding, unreadable } from './finding.js';
import type { SegmentLine } from './line-splitter.js';
import type { SegmentEntry, StoreView } from './store-view.js';
import type { VerificationProgress } from './verification-progress.js';

/** Reads the index of a store, as often as a verification needs it, and counts the progress. */
export class IndexReader {
  private bytes = 0;
  private hasGaps = false;
  private readonly reported = new Set<string>();

  constructor(
    private readonly view: StoreView,
    private readonly progress: VerificationProgress,
  ) {}

  get isWhole(): boolean {
    return !this.hasGaps;
  }

  add(entry: SegmentEntry): void {
    if (entry.type === 'unreadable') this.hasGaps = true;
    if (entry.type === 'file') this.bytes += entry.size;
  }

  begin(phase: VerificationProgress['phase'], passes: number): void {
    Object.assign(this.progress, { phase, done: 0, total: this.bytes * passes });
  }

  /**
   * Yields all lines of all segments, and a finding for each segment or directory that can't be read, unless an earlier
   * pass has yielded it.
   *
   * @param counts whether this pass over the index counts as progress.
   */
  async *lines(counts = true): AsyncGenerator<SegmentLine | Finding> {
    const onBytes = (bytes: number): void => {
      if (counts) this.progress.done += bytes;
    };
    for await (const line of this.view.lines(onBytes)) {
      if (!('error' in line)) {
        yield line;
        continue;
      }
      this.hasGaps = true;
      if (this.reported.has(line.path)) continue;
      this.reported.add(line.path);
      yield unreadable(line.path, line.error);
    }
  }
}
