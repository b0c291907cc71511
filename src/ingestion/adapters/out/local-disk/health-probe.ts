import { ServiceError } from '../../../../common/service-error.js';
import { storageFailure } from './disk-error.js';
import type { StoreDirectory } from './store-directory.js';

const REUSED_FOR_MS = 1_000;
const LONGEST_MS = 4_000;

/** Finds out whether the disk takes a file, by giving it one. */
export class HealthProbe {
  private answer: Promise<void> | undefined;
  private answeredAt: number | undefined;

  constructor(private readonly store: StoreDirectory) {}

  /**
   * Resolves when a small file was written, synced and removed; callers share one such attempt, and what it gave
   * for a second.
   *
   * @throws ServiceError `storage-failure`, within five seconds.
   */
  async check(): Promise<void> {
    if (this.answeredAt !== undefined && performance.now() - this.answeredAt >= REUSED_FOR_MS) this.answer = undefined;
    this.answer ??= this.probe();
    let timer: NodeJS.Timeout | undefined;
    const silence = new Promise<never>((_, reject) => {
      timer = setTimeout(() => {
        reject(new ServiceError('storage-failure', `The disk is silent for ${LONGEST_MS} ms.`));
      }, LONGEST_MS);
    });
    await Promise.race([this.answer, silence]).finally(() => {
      clearTimeout(timer);
    });
  }

  private async probe(): Promise<void> {
    this.answeredAt = undefined;
    try {
      await this.writeProbe();
    } catch (error) {
      storageFailure('The disk took no probe file.')(error);
    } finally {
      this.answeredAt = performance.now();
    }
  }

  private async writeProbe(): Promise<void> {
    const { disk } = this.store;
    const path = this.store.at('.health');
    // One that a lost process left.
    await disk.remove(path);
    const file = await disk.create(path);
    try {
      await file.write([Buffer.from('well\n')], 0);
      await file.sync();
    } finally {
      await file.close();
      await disk.remove(path);
    }
  }
}
