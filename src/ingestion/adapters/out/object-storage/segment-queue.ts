import { MIB } from '../../../../common/sizes.js';
import { timeOfUuid, uuidAt } from '../../../../common/uuid.js';
import { StoreSilentError } from './bucket.js';
import { segmentKey } from './keys.js';
import { SHARED_APART_MS } from './segment-names.js';

const MAX_IN_FLIGHT = 4;
const MAX_BATCH_BYTES = 8 * MIB;

const COUNTER_RANGE = 2 ** 32;

/** An upload that may share a segment. */
interface Sharing {
  readonly uploadId: string;
}

/**
 * Writes uploads to a new segment. Resolves when all of them are in the store, except those that continue alone. The
 * result has a promise for each of these. After a rejection, none of the uploads is in the store, or they are undone in
 * the background.
 *
 * @param segment the key of the segment.
 */
type WriteBatch<Upload extends Sharing> = (segment: string, batch: readonly Upload[]) => Promise<ReadonlyMap<Upload, Promise<void>> | undefined>;

interface QueueOptions<Upload extends Sharing> {
  /** How many bytes of an upload are written. A batch of several uploads has at most 8 MiB. */
  readonly bytesOf: (upload: Upload) => number;
  readonly maxUploads?: number;
}

interface Waiting<Upload extends Sharing> {
  readonly upload: Upload;
  /** The time in the upload's id, in milliseconds since 1970. */
  readonly began: number;
  readonly resolve: (outcome: Promise<void> | undefined) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Lets uploads share segments (objects with index lines) while they wait for the store: those that wait at the same time
 * for the same directory, if they began at about the same time. Up to four segments are written at once.
 */
export class SegmentQueue<Upload extends Sharing> {
  private readonly waiting = new Map<string, Waiting<Upload>[]>();
  private readonly inFlight = new Set<Promise<void>>();
  /** A counter in the names of segments, so that names of this process with the same millisecond sort by age. */
  private named = 0;

  constructor(
    private readonly write: WriteBatch<Upload>,
    private readonly options: QueueOptions<Upload>,
  ) {}

  /** The number of uploads that wait. Those that are being written don't count. */
  get size(): number {
    return [...this.waiting.values()].reduce((sum, waiting) => sum + waiting.length, 0);
  }

  /**
   * Writes an upload that `mayShare` a segment, together with others. Rejects with the error of this upload or of its
   * batch, and with the StoreSilentError of an earlier batch.
   *
   * @param directory where the segment is created.
   */
  add(directory: string, upload: Upload): Promise<void> {
    return new Promise<void>((resolve, reject) => {
      const waiting = this.waiting.get(directory);
      const one = { upload, began: timeOfUuid(upload.uploadId), resolve, reject };
      if (waiting) waiting.push(one);
      else this.waiting.set(directory, [one]);
      this.flush();
    });
  }

  async close(): Promise<void> {
    while (this.inFlight.size > 0) await Promise.all(this.inFlight);
  }

  private flush(): void {
    while (this.inFlight.size < MAX_IN_FLIGHT) {
      const [next] = this.waiting;
      if (!next) return;
      const [directory, waiting] = next;
      const { batch, rest } = this.firstBatch(waiting);
      // Moves a directory that has uploads left to the end of the map, so that the other directories come next.
      this.waiting.delete(directory);
      if (rest.length > 0) this.waiting.set(directory, rest);
      const writing = this.writeBatch(directory, batch).finally(() => {
        this.inFlight.delete(writing);
        this.flush();
      });
      this.inFlight.add(writing);
    }
  }

  private async writeBatch(directory: string, batch: readonly Waiting<Upload>[]): Promise<void> {
    this.named = (this.named + 1) % COUNTER_RANGE;
    const segment = segmentKey(directory, uuidAt(new Date(batch[0]?.began ?? Number.NaN), this.named));
    try {
      const alone = await this.write(segment, batch.map(({ upload }) => upload));
      for (const { upload, resolve } of batch) resolve(alone?.get(upload));
    } catch (error) {
      for (const { reject } of batch) reject(error);
      // The waiting uploads are rejected too: each further segment would wait for another time-out of the silent store.
      if (error instanceof StoreSilentError) this.rejectWaiting(error);
    }
  }

  private rejectWaiting(error: StoreSilentError): void {
    const waiting = [...this.waiting.values()].flat();
    this.waiting.clear();
    for (const { reject } of waiting) reject(error);
  }

  /** The first upload, with as many of the others as may share its segment. */
  private firstBatch(waiting: readonly Waiting<Upload>[]): { readonly batch: Waiting<Upload>[]; readonly rest: Waiting<Upload>[] } {
    const { bytesOf, maxUploads = Infinity } = this.options;
    const batch: Waiting<Upload>[] = [];
    const rest: Waiting<Upload>[] = [];
    let length = 0;
    for (const one of waiting) {
      const { began } = batch[0] ?? one;
      const bytes = bytesOf(one.upload);
      const isNear = Math.abs(one.began - began) <= SHARED_APART_MS;
      if (batch.length > 0 && (!isNear || batch.length === maxUploads || length + bytes > MAX_BATCH_BYTES)) rest.push(one);
      else {
        batch.push(one);
        length += bytes;
      }
    }
    return { batch, rest };
  }
}
