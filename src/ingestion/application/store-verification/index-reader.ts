import { type Finding, unreadable } from './finding.js';
import type { SegmentLine } from './segment-lines.js';
import type { SegmentEntry, StoreView } from './store-view.js';
import type { VerificationProgress } from './verification-progress.js';

/**
 * Reads the index of a store, as many times as a verification needs it, and updates the progress of the verification.
 */
export class IndexReader {
  private bytes = 0;
  private hasGaps = false;
  /**
   * The unreadable segments that were reported. Each is reported only once, although every pass over the index tries to
   * read it.
   */
  private readonly reported = new Set<string>();

  constructor(
    private readonly view: StoreView,
    private readonly progress: VerificationProgress,
  ) {}

  /** Whether everything of the index could be read so far. */
  get isWhole(): boolean {
    return !this.hasGaps;
  }

  /** Takes note of a name that was listed below uploads/: of the size of a segment, or of something unreadable. */
  add(entry: SegmentEntry): void {
    if (entry.type === 'unreadable') this.hasGaps = true;
    if (entry.type === 'file') this.bytes += entry.size;
  }

  /**
   * Begins a phase of the verification, and its progress at 0. In this phase, `passes` passes over the index count as
   * progress.
   */
  begin(phase: VerificationProgress['phase'], passes: number): void {
    Object.assign(this.progress, { phase, done: 0, total: this.bytes * passes });
  }

  /**
   * Yields all lines of all segments, and one finding for each segment that can't be read.
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
