import { joined } from '../../../../common/joined.js';
import { MIB } from '../../../../common/sizes.js';
import { timeOfUuid, uuidAt } from '../../../../common/uuid.js';
import type { IndexFlush } from '../../../application/ports/index-flush.js';
import { type Bucket, StoreSilentError } from './bucket.js';
import type { LateSegments } from './event-outbox/late-segments.js';
import { FENCE } from './keys.js';
import type { Retries } from './retries.js';
import { SHARED_APART_MS } from './segment-names.js';

const MAX_IN_FLIGHT = 4;
const MAX_SEGMENT_BYTES = 8 * MIB;
const MAX_DOUBTFUL = 64;
export const TOO_MANY_TO_UNDO = 'Too many failed writes are still to be undone in the store.';

const COUNTER_RANGE = 2 ** 32;

interface WaitingLine {
  readonly uploadId: string;
  /** The time in the upload's id, in milliseconds since 1970. */
  readonly began: number;
  readonly bytes: Buffer;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Writes index lines to new segments. Lines that wait at the same time for the same directory share a segment if their
 * uploads began at about the same time.
 */
export class SegmentLog {
  private readonly waiting = new Map<string, WaitingLine[]>();
  private readonly inFlight = new Set<Promise<void>>();
  /** A counter in the names of segments, so that names of this process with the same millisecond sort by age. */
  private named = 0;

  constructor(
    private readonly bucket: Bucket,
    private readonly late: LateSegments,
    /** Undoes failed writes that the store may have carried out. Used by this log only. */
    private readonly doubtful: Retries,
    private readonly onFlush: (flush: IndexFlush) => void,
  ) {}

  get isRefusing(): boolean {
    return this.doubtful.size >= MAX_DOUBTFUL;
  }

  get waitingLines(): number {
    return [...this.waiting.values()].reduce((sum, lines) => sum + lines.length, 0);
  }

  /**
   * Writes the index line, given with its newline, of an upload that `mayShare` a segment. Resolves when the line is in
   * the store. Rejects with errors of the bucket, if the new segment's key is taken, and at once if `isRefusing`. After
   * a rejection, the line is in no segment, or its segment is undone in the background.
   */
  append(directory: string, uploadId: string, bytes: Buffer): Promise<void> {
    return new Promise((resolve, reject) => {
      if (this.isRefusing) throw new Error(TOO_MANY_TO_UNDO);
      const lines = this.waiting.get(directory);
      const line = { uploadId, began: timeOfUuid(uploadId), bytes, resolve, reject };
      if (lines) lines.push(line);
      else this.waiting.set(directory, [line]);
      this.flush();
    });
  }

  async close(): Promise<void> {
    while (this.inFlight.size > 0) await Promise.all(this.inFlight);
    await this.doubtful.close();
  }

  private flush(): void {
    while (this.inFlight.size < MAX_IN_FLIGHT) {
      const [next] = this.waiting;
      if (!next) return;
      const [directory, lines] = next;
      const { batch, rest } = firstBatch(lines);
      // Moves a directory that has lines left to the end of the map, so that the other directories come next.
      this.waiting.delete(directory);
      if (rest.length > 0) this.waiting.set(directory, rest);
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
    this.named = (this.named + 1) % COUNTER_RANGE;
    const key = `${directory}/${uuidAt(new Date(batch[0]?.began ?? Number.NaN), this.named)}.ndjson`;
    const began = performance.now();
    let ok = true;
    try {
      const write = () => this.bucket.create(key, joined(batch.map(({ bytes }) => bytes)));
      if ((await this.late.around(key, () => batch.map(({ uploadId }) => uploadId), write)) === undefined) throw new Error(`${key} exists already.`);
      for (const { resolve } of batch) resolve();
    } catch (error) {
      ok = false;
      // The store may have written the segment, or may still write it. A fence overwrites it, or prevents that.
      this.doubtful.begin(`Undoing ${key}`, () => this.bucket.replace(key, FENCE));
      for (const { reject } of batch) reject(error);
      // The waiting lines are rejected too: each further segment would wait for another time-out of the silent store.
      if (error instanceof StoreSilentError) this.rejectWaiting(error);
    }
    this.onFlush({ lines: batch.length, seconds: (performance.now() - began) / 1000, ok });
  }
}

/** The first line, with as many of the others as may share its segment. */
function firstBatch(lines: readonly WaitingLine[]): { readonly batch: WaitingLine[]; readonly rest: WaitingLine[] } {
  const batch: WaitingLine[] = [];
  const rest: WaitingLine[] = [];
  let length = 0;
  for (const line of lines) {
    const { began } = batch[0] ?? line;
    const isNear = Math.abs(line.began - began) <= SHARED_APART_MS;
    if (batch.length > 0 && (!isNear || length + line.bytes.length > MAX_SEGMENT_BYTES)) rest.push(line);
    else {
      batch.push(line);
      length += line.bytes.length;
    }
  }
  return { batch, rest };
}
