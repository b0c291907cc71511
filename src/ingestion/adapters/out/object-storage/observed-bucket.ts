import { observeEntries, type Observer } from '../../../../common/observer.js';
import { Bucket, type ByteRange, type ListedObject, type ReadObject } from './bucket.js';

/**
 * Passes each call on to another bucket, and reports it to an observer, except `close`. A listing counts as one call,
 * which lasts until the caller has used the last entry or stops reading. A call of `open` ends when the object is open.
 */
export class ObservedBucket extends Bucket {
  constructor(
    private readonly bucket: Bucket,
    private readonly observe: Observer,
  ) {
    super();
  }

  override get clockOffsetMs(): number {
    return this.bucket.clockOffsetMs;
  }

  override get storeTime(): number {
    return this.bucket.storeTime;
  }

  override create(key: string, bytes: Uint8Array): Promise<string | undefined> {
    return this.observe('create', () => this.bucket.create(key, bytes));
  }

  override replace(key: string, bytes: Uint8Array, version?: string): Promise<string | undefined> {
    return this.observe('replace', () => this.bucket.replace(key, bytes, version));
  }

  override upload(key: string, bytes: AsyncIterable<Uint8Array>): Promise<void> {
    return this.observe('upload', () => this.bucket.upload(key, bytes));
  }

  override read(key: string): Promise<ReadObject | undefined> {
    return this.observe('read', () => this.bucket.read(key));
  }

  override open(key: string, range?: ByteRange): Promise<AsyncIterable<Uint8Array> | undefined> {
    return this.observe('open', () => this.bucket.open(key, range));
  }

  override list(prefix: string): AsyncIterable<ListedObject> {
    return observeEntries(this.observe, 'list', this.bucket.list(prefix));
  }

  override listAfter(prefix: string, after: string): AsyncIterable<ListedObject> | undefined {
    const listed = this.bucket.listAfter(prefix, after);
    return listed && observeEntries(this.observe, 'list', listed);
  }

  override listDirectories(prefix: string): AsyncIterable<string> {
    return observeEntries(this.observe, 'listDirectories', this.bucket.listDirectories(prefix));
  }

  override remove(keys: readonly string[]): Promise<void> {
    return this.observe('remove', () => this.bucket.remove(keys));
  }

  override removeParts(key: string): Promise<void> {
    return this.observe('removeParts', () => this.bucket.removeParts(key));
  }

  override checkRights(key: string): Promise<void> {
    return this.observe('checkRights', () => this.bucket.checkRights(key));
  }

  override close(): void {
    this.bucket.close();
  }
}
