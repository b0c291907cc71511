import { uuidAt } from '../../../../common/uuid.js';
import type { Bucket } from './bucket.js';

/**
 * Decides which of the processes that use a bucket does a regular job next, such as compaction. Each turn rewrites the
 * object at `key`, so the age of this object says when the last turn began.
 */
export class Turn {
  constructor(
    private readonly bucket: Bucket,
    private readonly key: string,
    /** The shortest time between the beginnings of two turns, in milliseconds by the store's clock. */
    private readonly leastMs: number,
  ) {}

  /**
   * Takes the next turn for this process if the last turn of any process began at least `leastMs` ago. Resolves to
   * whether this process has the turn now. Throws errors of the bucket.
   */
  async take(): Promise<boolean> {
    const last = await this.bucket.read(this.key);
    if (last && last.ageMs < this.leastMs) return false;
    // The bytes of the object differ each time. In some stores an object's version depends only on its bytes: with
    // equal bytes, two processes could both take one turn.
    const bytes = Buffer.from(JSON.stringify({ turn: uuidAt(new Date()) }));
    const taken = await (last ? this.bucket.replace(this.key, bytes, last.version) : this.bucket.create(this.key, bytes));
    return taken !== undefined;
  }
}
