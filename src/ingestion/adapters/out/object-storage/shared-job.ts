import { uuidAt } from '../../../../common/uuid.js';
import type { Bucket } from './bucket.js';

/**
 * A regular job that one of the processes that use a bucket does for all of them, such as compaction. The age of the
 * object at `key` says when the job last began.
 */
export class SharedJob {
  constructor(
    private readonly bucket: Bucket,
    private readonly key: string,
    private readonly leastMs: number,
  ) {}

  /**
   * Takes the job if no process has begun it within the last `leastMs` milliseconds. Resolves to whether this process
   * must do it now. Throws errors of the bucket.
   */
  async take(): Promise<boolean> {
    const last = await this.bucket.read(this.key);
    if (last && last.ageMs < this.leastMs) return false;
    // The bytes differ each time: with equal bytes, some stores keep the version, and two processes could take the job.
    const bytes = Buffer.from(JSON.stringify({ turn: uuidAt(new Date()) }));
    const taken = await (last ? this.bucket.replace(this.key, bytes, last.version) : this.bucket.create(this.key, bytes));
    return taken !== undefined;
  }
}
