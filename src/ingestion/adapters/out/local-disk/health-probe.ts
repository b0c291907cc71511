import { dirname } from 'node:path';
import { SharedProbe } from '../../../../common/shared-probe.js';
import { storageFailure } from '../../../application/storage-failure.js';
import { segmentDirectory } from '../../../domain/layout.js';
import { UPLOAD_KINDS } from '../../../domain/upload.js';
import type { StoreDirectory } from './store-directory.js';

/** Checks, by writing a file, that the store is present and writable. */
export class HealthProbe {
  private readonly shared = new SharedProbe(() => this.probe());

  constructor(private readonly store: StoreDirectory) {}

  /**
   * Checks that the store and its directories are present and writable, that uploads with an idempotency key can be
   * expected to succeed, and that a small file can be written, synced and removed. Also measures the free space. Callers
   * share one probe, and its result for one second. A store found to be missing or unwritable counts as away until it is
   * opened again.
   *
   * @throws ServiceError `storage-failure`, within five seconds.
   */
  async check(): Promise<void> {
    await this.shared.check().catch(storageFailure('The health check of the store failed.'));
  }

  private async probe(): Promise<void> {
    try {
      await this.write();
    } catch (error) {
      this.store.presence.leaveIfUnwritable(error);
      throw error;
    }
  }

  private async assertDay(day: string): Promise<void> {
    const { disk, presence } = this.store;
    const path = this.store.at(day);
    if (!(await disk.isNameTaken(path))) return;
    await disk.assertDirectory(path);
    await disk.assertWritable(path);
    presence.assertOnVolumeOf(this.store.at(dirname(day)), path);
  }

  private async write(): Promise<void> {
    const { disk, events, idempotency, presence, reserve } = this.store;
    const parts = [...this.store.parts, ...events.parts];
    presence.assertHere(parts);
    for (const part of parts) await disk.assertWritable(part);
    for (const kind of UPLOAD_KINDS) await this.assertDay(segmentDirectory(kind, new Date()));
    await idempotency.assertUsable();
    await reserve.measure();
    const path = this.store.at('.health');
    // Removes the probe file that a crash during an earlier probe may have left.
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
