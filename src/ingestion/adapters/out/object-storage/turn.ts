import { uuidAt } from '../../../../common/uuid.js';
import type { Bucket } from './bucket.js';

/** Regular work that only one of the processes which use a bucket does, by an object that tells when its last turn began. */
export class Turn {
  constructor(
    private readonly bucket: Bucket,
    private readonly key: string,
    /** No turn begins earlier than this after the last one. In milliseconds, by the store's clock. */
    private readonly leastMs: number,
  ) {}

  /** Resolves to whether this process takes the next turn now. Throws errors of the bucket. */
  async take(): Promise<boolean> {
    const last = await this.bucket.read(this.key);
    if (last && last.ageMs < this.leastMs) return false;
    // The bytes differ each time, because in some stores the same bytes have the same version.
    const bytes = Buffer.from(JSON.stringify({ turn: uuidAt(new Date()) }));
    const taken = await (last ? this.bucket.replace(this.key, bytes, last.version) : this.bucket.create(this.key, bytes));
    return taken !== undefined;
  }
}
