import { type Finding, unreadable } from './finding.js';
import type { SegmentLine } from './line-splitter.js';
import type { SegmentEntry, StoreView } from './store-view.js';
import type { VerificationProgress } from './verification-progress.js';

/** Reads the index of a store, as many times as a verification needs, and updates the progress of the verification. */
export class IndexReader {
  private bytes = 0;
  private hasGaps = false;
  /**
   * The unreadable segments (files of index lines) and directories that were reported. Each is reported only once,
   * although each pass over the index tries to read it.
   */
  private readonly reported = new Set<string>();

  constructor(
    private readonly view: StoreView,
    private readonly progress: VerificationProgress,
  ) {}

  /** Whether everything in the index could be read so far. */
  get isWhole(): boolean {
    return !this.hasGaps;
  }

  /**
   * Counts an entry of the index before the lines are read: adds a segment's size to the total size of the index, and
   * remembers if something can't be read.
   */
  add(entry: SegmentEntry): void {
    if (entry.type === 'unreadable') this.hasGaps = true;
    if (entry.type === 'file') this.bytes += entry.size;
  }

  /**
   * Begins a phase of the verification, and sets its progress to 0.
   *
   * @param passes how many times the phase reads the whole index. The progress is complete after this many passes.
   */
  begin(phase: VerificationProgress['phase'], passes: number): void {
    Object.assign(this.progress, { phase, done: 0, total: this.bytes * passes });
  }

  /**
   * Yields all lines of all segments, and a finding for each segment or directory that can't be read. A finding that an
   * earlier pass has yielded isn't yielded again.
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
