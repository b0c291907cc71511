import { SharedProbe } from '../../../../common/shared-probe.js';
import { storageFailure } from '../../../application/storage-failure.js';
import type { StoreDirectory } from './store-directory.js';

/** Finds out whether the store is there and can be written, by writing a file to it. */
export class HealthProbe {
  private readonly shared = new SharedProbe(() => this.probe());

  constructor(private readonly store: StoreDirectory) {}

  /**
   * Resolves when the store is at its path, its parts take names, and a small file was written, synced and removed;
   * callers share one such attempt, and what it gave for a second. A part that is missing takes the store away.
   *
   * @throws ServiceError `storage-failure`, within five seconds.
   */
  async check(): Promise<void> {
    await this.shared.check().catch(storageFailure('The disk took no probe file.'));
  }

  private async probe(): Promise<void> {
    try {
      await this.write();
    } catch (error) {
      this.store.presence.leaveIfUnwritable(error);
      throw error;
    }
  }

  private async write(): Promise<void> {
    const { disk, directories, presence, parts } = this.store;
    presence.assertHere();
    for (const part of parts) await directories.within(part, () => disk.assertWritable(part));
    const path = this.store.at('.health');
    // One that a lost process left.
    await disk.removeTree(path);
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
