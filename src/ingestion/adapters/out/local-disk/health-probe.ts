import { dirname } from 'node:path';
import { SharedProbe } from '../../../../common/shared-probe.js';
import { storageFailure } from '../../../application/storage-failure.js';
import { segmentDirectory } from '../../../domain/layout.js';
import { UPLOAD_KINDS } from '../../../domain/upload.js';
import type { StoreDirectory } from './store-directory.js';

/** Finds out whether the store is there and can be written, by writing a file to it. */
export class HealthProbe {
  private readonly shared = new SharedProbe(() => this.probe());

  constructor(private readonly store: StoreDirectory) {}

  /**
   * Resolves when the store is at its path, its parts and the directories of today's lines can be written, keys too, and
   * a small file was written, synced and removed. Callers share one such attempt, and its result for a second. A part
   * that is missing takes the store away.
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

  /** @throws DataDirectoryError; what the file system throws. Resolves when the day has no directory yet. */
  private async assertDay(day: string): Promise<void> {
    const { disk, presence } = this.store;
    const path = this.store.at(day);
    if (!(await disk.isNameTaken(path))) return;
    await disk.assertDirectory(path);
    await disk.assertWritable(path);
    presence.assertOnVolumeOf(this.store.at(dirname(day)), path);
  }

  private async write(): Promise<void> {
    const { disk, idempotency, presence, parts } = this.store;
    presence.assertHere();
    for (const part of parts) await disk.assertWritable(part);
    for (const kind of UPLOAD_KINDS) await this.assertDay(segmentDirectory(kind, new Date()));
    await idempotency.assertWritable();
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
