import { SharedProbe } from '../../../../common/shared-probe.js';
import { storageFailure } from '../../../application/storage-failure.js';
import type { StoreDirectory } from './store-directory.js';

/** Finds out whether the disk takes a file, by giving it one. */
export class HealthProbe {
  private readonly shared = new SharedProbe(() => this.probe());

  constructor(private readonly store: StoreDirectory) {}

  /**
   * Resolves when a small file was written, synced and removed; callers share one such attempt, and what it gave
   * for a second.
   *
   * @throws ServiceError `storage-failure`, within five seconds.
   */
  async check(): Promise<void> {
    await this.shared.check().catch(storageFailure('The disk took no probe file.'));
  }

  private async probe(): Promise<void> {
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
