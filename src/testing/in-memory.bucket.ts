import { createHash } from 'node:crypto';
import { Bucket, type ByteRange, type ListedObject, missingRight, ObjectExistsError, type ReadObject, significantOffset } from '../ingestion/adapters/out/object-storage/bucket.js';
import { SortedObjects } from './sorted-objects.js';

interface Kept {
  readonly bytes: Buffer;
  readonly version: string;
  readonly writtenAt: number;
}

/** A `Bucket` in memory. A test can set the clock of the simulated object store, and make operations fail or hang. */
export class InMemoryBucket extends Bucket {
  aheadMs = 0;
  /** The store's clock without `aheadMs`, in milliseconds since 1970. Default: this machine's clock. */
  time: () => number = () => Date.now();
  /**
   * Called before each operation; before an `upload`, once its bytes have been read. An error that this function throws
   * is that of the operation, which then changes no object. All listings count as `list`. `bytes` is the content of
   * `create` or `upload`.
   */
  before: (operation: keyof Bucket, key: string, bytes?: Uint8Array) => Promise<void> | void = () => undefined;
  /**
   * Called after each successful operation. An error that this function throws is that of the operation, which was done
   * nevertheless, as when the store's answer is lost.
   */
  after: (operation: keyof Bucket, key: string) => Promise<void> | void = () => undefined;

  /** How many operations were begun. An `upload` counts once its bytes were read, a listing once it is iterated. */
  operations = 0;

  /** Changes the objects that a listing finds. Default: no change. */
  listed: (objects: ListedObject[]) => ListedObject[] = (objects) => objects;

  constructor(
    private readonly objects = new SortedObjects<Kept>(),
    private readonly unfinished = new Set<{ readonly key: string }>(),
  ) {
    super();
  }

  get keys(): string[] {
    return this.objects.keys;
  }

  override get clockOffsetMs(): number {
    return significantOffset(this.storeTime - Date.now());
  }

  override get storeTime(): number {
    return this.time() + this.aheadMs;
  }

  override create(key: string, bytes: Uint8Array): Promise<string | undefined> {
    return this.run('create', key, () => (this.objects.has(key) ? undefined : this.write(key, bytes)), bytes);
  }

  override replace(key: string, bytes: Uint8Array, version?: string): Promise<string | undefined> {
    return this.run('replace', key, () => {
      const isOther = version !== undefined && this.objects.get(key)?.version !== version;
      return isOther ? undefined : this.write(key, bytes);
    });
  }

  override async upload(key: string, bytes: AsyncIterable<Uint8Array>): Promise<void> {
    const chunks: Uint8Array[] = [];
    const upload = { key };
    this.unfinished.add(upload);
    try {
      for await (const chunk of bytes) chunks.push(Buffer.from(chunk));
      const whole = Buffer.concat(chunks);
      const make = () => {
        if (this.objects.has(key)) throw new ObjectExistsError(key);
        this.write(key, whole);
      };
      await this.run('upload', key, make, whole);
    } finally {
      this.unfinished.delete(upload);
    }
  }

  override read(key: string): Promise<ReadObject | undefined> {
    return this.run('read', key, () => {
      const kept = this.objects.get(key);
      return kept && { bytes: Buffer.from(kept.bytes), version: kept.version, ageMs: this.storeTime - kept.writtenAt };
    });
  }

  override open(key: string, range?: ByteRange): Promise<AsyncIterable<Uint8Array> | undefined> {
    return this.run('open', key, () => {
      const kept = this.objects.get(key);
      return kept && piecesOf(range ? kept.bytes.subarray(range.first, range.last + 1) : kept.bytes);
    });
  }

  override list(prefix: string): AsyncGenerator<ListedObject> {
    return this.listFrom(prefix, () => this.objects.list(prefix));
  }

  override listAfter(prefix: string, after: string): AsyncGenerator<ListedObject> | undefined {
    return this.listFrom(after, () => this.objects.list(prefix, after));
  }

  private async *listFrom(begin: string, list: () => Iterable<[string, Kept]>): AsyncGenerator<ListedObject> {
    const listed = await this.run('list', begin, () => Array.from(list(), ([key, { bytes, writtenAt }]) => ({ key, size: bytes.length, ageMs: this.storeTime - writtenAt })));
    yield* this.listed(listed);
  }

  override async *listDirectories(prefix: string): AsyncGenerator<string> {
    const directories = new Set<string>();
    for await (const { key } of this.list(prefix)) {
      const end = key.indexOf('/', prefix.length);
      if (end >= 0) directories.add(key.slice(0, end + 1));
    }
    yield* directories;
  }

  override remove(keys: readonly string[]): Promise<void> {
    return this.run('remove', keys[0] ?? '', () => {
      for (const key of keys) this.objects.delete(key);
    });
  }

  override removeParts(key: string): Promise<void> {
    return this.run('removeParts', key, () => {
      for (const upload of this.unfinished) if (upload.key === key) this.unfinished.delete(upload);
    });
  }

  override async checkRights(key: string): Promise<void> {
    await this.read(key).catch(missingRight('read', isDenied));
    await this.run('list', key, () => undefined).catch(missingRight('list', isDenied));
    await this.remove([key]).catch(missingRight('remove', isDenied));
    await this.removeParts(key).catch(missingRight('removeParts', isDenied));
  }

  override close(): void {
    // A bucket in memory has nothing to close.
  }

  /** Returns a bucket that shares this bucket's objects and unfinished uploads, like the bucket of another process. */
  another(): InMemoryBucket {
    const another = new InMemoryBucket(this.objects, this.unfinished);
    another.time = this.time;
    return another;
  }

  copy(): InMemoryBucket {
    return new InMemoryBucket(this.objects.copy());
  }

  parts(key: string): number {
    return [...this.unfinished].filter((upload) => upload.key === key).length;
  }

  leaveParts(key: string): void {
    this.unfinished.add({ key });
  }

  private write(key: string, bytes: Uint8Array): string {
    // As usual in S3, the version of an object depends only on the bytes.
    const version = createHash('md5').update(bytes).digest('hex');
    this.objects.set(key, { bytes: Buffer.from(bytes), version, writtenAt: this.storeTime });
    return version;
  }

  private async run<T>(operation: keyof Bucket, key: string, action: () => T, bytes?: Uint8Array): Promise<T> {
    this.operations += 1;
    await this.before(operation, key, bytes);
    await new Promise(setImmediate);
    const result = action();
    await this.after(operation, key);
    return result;
  }
}

/** Whether an error means a missing right. A test simulates a missing right by an error with the message `denied`. */
const isDenied = (error: unknown): boolean => error instanceof Error && error.message === 'denied';

async function* piecesOf(bytes: Buffer): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += 65_536) {
    await new Promise(setImmediate);
    yield bytes.subarray(at, at + 65_536);
  }
}
