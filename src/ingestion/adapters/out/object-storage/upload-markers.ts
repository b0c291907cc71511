import type { Bucket } from './bucket.js';
import { Lease } from './lease.js';
import type { UploadMarker } from './upload-marker.js';

/** Writes and removes the markers (objects in `staging/`) of this process's uploads with a file. */
export class UploadMarkers {
  private readonly ending = new Set<Promise<unknown>>();
  private readonly removable: string[] = [];
  private removing: Promise<void> | undefined;

  constructor(private readonly bucket: Bucket) {}

  /** Writes a marker, and renews it until its lease is ended. Rejects with errors of the bucket. */
  async begin(key: string, marker: UploadMarker): Promise<Lease<UploadMarker>> {
    const version = await this.bucket.create(key, Buffer.from(JSON.stringify(marker)));
    if (version === undefined) throw new Error(`${key} exists already.`);
    return new Lease(this.bucket, key, marker, version);
  }

  /** Removes a marker in the background. If that fails, the sweeper removes the marker. */
  end(marking: Promise<Lease<UploadMarker>>): void {
    this.inBackground(async () => { await this.remove(await marking); });
  }

  /**
   * Removes the parts of an upload that failed before its file was created, and then its marker, in the background. If
   * that fails, the sweeper does the rest.
   *
   * @param path where the upload's file would be. An empty object there is removed too: Azure removes parts by creating
   *   an object and removing it, and may be interrupted in between.
   */
  endFailed(marking: Promise<Lease<UploadMarker>>, path: string): void {
    this.inBackground(async () => {
      const areGone = await this.removeFile(path).then(() => true, () => false);
      const marker = await marking;
      await (areGone ? this.remove(marker) : marker.endWith({ failed: true }));
    });
  }

  async close(): Promise<void> {
    await Promise.all([...this.ending]);
  }

  private async removeFile(path: string): Promise<void> {
    await this.bucket.removeParts(path);
    await this.bucket.remove([path]);
  }

  private async remove(marker: Lease<UploadMarker>): Promise<void> {
    await marker.end();
    this.removable.push(marker.key);
    await (this.removing ??= this.removeMarkers());
  }

  /** Removes a marker, then all those that became removable meanwhile at once, and so on. Never rejects. */
  private async removeMarkers(): Promise<void> {
    while (this.removable.length > 0) await this.bucket.remove(this.removable.splice(0)).catch(() => undefined);
    this.removing = undefined;
  }

  private inBackground(action: () => Promise<void>): void {
    const ending = action()
      .catch(() => undefined)
      .finally(() => this.ending.delete(ending));
    this.ending.add(ending);
  }
}
