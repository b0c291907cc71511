import { uuidAt } from '../../../../common/uuid.js';
import { type Bucket, StoreSilentError } from './bucket.js';
import { FENCE } from './keys.js';
import type { Retries } from './retries.js';

/** Segments that are being written at once; a line that comes while all are waits for the first to end. */
const MOST_IN_FLIGHT = 4;
/** A segment takes no further line when it has so many UTF-16 units. */
const FULL_LENGTH = 8 * 1024 * 1024;
/** No line is taken while so many segments aren't taken back yet that may have been written. */
const MOST_DOUBTFUL = 64;

/** One PUT of a segment, for metrics. */
export interface Flush {
  readonly lines: number;
  readonly seconds: number;
  readonly ok: boolean;
}

interface WaitingLine {
  readonly line: string;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

/** Writes lines to new segments of the index; those that wait share one. */
export class SegmentLog {
  /** By the directory of their segment. */
  private readonly waiting = new Map<string, WaitingLine[]>();
  private readonly inFlight = new Set<Promise<void>>();

  constructor(
    private readonly bucket: Bucket,
    /** Takes back what may have been written; nobody else's. */
    private readonly doubtful: Retries,
    private readonly onFlush: (flush: Flush) => void,
  ) {}

  /** Whether no line is taken. */
  get isRefusing(): boolean {
    return this.doubtful.size >= MOST_DOUBTFUL;
  }

  /** Resolves when the line is in a segment. When it rejects, with what the bucket throws, it is in none, or is taken back. */
  append(directory: string, line: string): Promise<void> {
    return new Promise((resolve, reject) => {
      if (this.isRefusing) throw new Error('Too much is to be taken back in the store.');
      const lines = this.waiting.get(directory);
      if (lines) lines.push({ line, resolve, reject });
      else this.waiting.set(directory, [{ line, resolve, reject }]);
      this.flush();
    });
  }

  /** Resolves when no line waits any more. */
  async close(): Promise<void> {
    while (this.inFlight.size > 0) await Promise.all(this.inFlight);
    await this.doubtful.close();
  }

  private flush(): void {
    while (this.inFlight.size < MOST_IN_FLIGHT) {
      const [next] = this.waiting;
      if (!next) return;
      const [directory, lines] = next;
      const batch = lines.splice(0, batchLength(lines));
      // To the end, where others wait as well.
      this.waiting.delete(directory);
      if (lines.length > 0) this.waiting.set(directory, lines);
      const writing = this.write(directory, batch).finally(() => {
        this.inFlight.delete(writing);
        this.flush();
      });
      this.inFlight.add(writing);
    }
  }

  private rejectWaiting(error: StoreSilentError): void {
    const waiting = [...this.waiting.values()].flat();
    this.waiting.clear();
    for (const { reject } of waiting) reject(error);
  }

  private async write(directory: string, batch: readonly WaitingLine[]): Promise<void> {
    const key = `${directory}/${uuidAt(new Date(Date.now() + this.bucket.clockOffsetMs))}.ndjson`;
    const began = performance.now();
    let ok = true;
    try {
      const bytes = Buffer.from(batch.map(({ line }) => `${line}\n`).join(''));
      if ((await this.bucket.create(key, bytes)) === undefined) throw new Error(`${key} exists.`);
      for (const { resolve } of batch) resolve();
    } catch (error) {
      ok = false;
      // It may be written all the same, also later: not when something else stands there.
      this.doubtful.begin(`Taking back ${key}`, () => this.bucket.replace(key, FENCE));
      for (const { reject } of batch) reject(error);
      // Those that wait have waited as long as these.
      if (error instanceof StoreSilentError) this.rejectWaiting(error);
    }
    this.onFlush({ lines: batch.length, seconds: (performance.now() - began) / 1000, ok });
  }
}

function batchLength(lines: readonly WaitingLine[]): number {
  let length = 0;
  const end = lines.findIndex(({ line }) => (length += line.length) >= FULL_LENGTH);
  return end < 0 ? lines.length : end + 1;
}
