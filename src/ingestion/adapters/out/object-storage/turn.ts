import { uuidAt } from '../../../../common/uuid.js';
import type { Bucket } from './bucket.js';

/**
 * Decides which of the processes that use a bucket does a regular job next, such as compaction. The age of the object
 * at `key` says when the last turn began.
 */
export class Turn {
  constructor(
    private readonly bucket: Bucket,
    private readonly key: string,
    private readonly leastMs: number,
  ) {}

  /**
   * Takes the next turn if the last one of any process began at least `leastMs` ago. Resolves to whether this process
   * has the turn now. Throws errors of the bucket.
   */
  async take(): Promise<boolean> {
    const last = await this.bucket.read(this.key);
    if (last && last.ageMs < this.leastMs) return false;
    // The bytes of each turn differ: with equal bytes, some stores keep the version, and two processes could take one
    // turn.
    const bytes = Buffer.from(JSON.stringify({ turn: uuidAt(new Date()) }));
    const taken = await (last ? this.bucket.replace(this.key, bytes, last.version) : this.bucket.create(this.key, bytes));
    return taken !== undefined;
  }
}
