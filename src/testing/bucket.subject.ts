import assert from 'node:assert/strict';
import { setImmediate as nextIteration } from 'node:timers/promises';
import type { Bucket } from '../ingestion/adapters/out/object-storage/bucket.js';
import { assertBytes, assertEqual } from './expectations.js';

export const RIGHTS = ['read', 'list', 'remove', 'removeParts'] as const satisfies readonly (keyof Bucket)[];
export type BucketRight = (typeof RIGHTS)[number];

/** The subject of one test of `bucketContract`: a new, empty bucket, and access to its store. */
export interface BucketContractSubject {
  /** The bucket to test. If the store supports it, a page of a listing has `PAGE_SIZE` objects. */
  readonly bucket: Bucket;
  /** Another bucket in the same store, whose prefix differs, but begins in the same way. */
  readonly neighbour: Bucket;
  /** How many unfinished uploads to a key have left data in the store. */
  parts(key: string): Promise<number>;
  /** Leaves an upload to a key unfinished after one part, as a crashed process does. */
  leaveParts(key: string): Promise<void>;
  /**
   * A bucket with the same objects, but with the store's clock `aheadMs` ahead of this machine's. Existing objects keep
   * their times. Needed only if the store has its own clock.
   */
  withClockAhead?(aheadMs: number): Promise<Bucket>;
  /**
   * A bucket with the same objects, whose store refuses the requests of one operation, and no others. Needed only if
   * the store checks rights.
   */
  without?(right: BucketRight): Promise<Bucket>;
  tearDown(): Promise<void>;
}

/** The number of objects on a page of a listing. Small, so that a listing of a few objects takes several pages. */
export const PAGE_SIZE = 7;

export class BucketChecks {
  constructor(private readonly subject: BucketContractSubject) {}

  readonly keysUnder = async (prefix: string): Promise<string[]> => (await gather(this.subject.bucket.list(prefix))).map(({ key }) => key);

  readonly assertObject = async (key: string, bytes: Uint8Array): Promise<void> => {
    const opened = await this.subject.bucket.open(key);
    assert.ok(opened, `There is no object ${key}.`);
    assertBytes(Buffer.concat(await gather(opened)), bytes, `The bytes of ${key}`);
  };

  readonly assertNothing = async (key: string): Promise<void> => {
    assert.equal(await this.subject.bucket.read(key), undefined, `${key} must not exist.`);
    assertEqual(await this.keysUnder(''), [], 'There are objects, although none must be left.');
    assert.equal(await this.subject.parts(key), 0, `Parts of ${key} are left.`);
  };
}

export const KEY = 'files/kind=historical/customer_id=acme/date=2025-03-30/0195e5a0-0000-7000-8000-000000000000.csv';

/** Chunk sizes that add up to `sum`. No chunk before the last ends at a whole MiB, as a part of an upload may. */
export function oddSizes(sum: number): number[] {
  const sizes = Array<number>(Math.floor(sum / 77_777)).fill(77_777);
  return [...sizes, sum % 77_777];
}

export async function* yielding(chunks: readonly Uint8Array[]): AsyncGenerator<Uint8Array> {
  for (const chunk of chunks) {
    await nextIteration();
    yield chunk;
  }
}

export async function gather<Item>(items: AsyncIterable<Item> | Iterable<Item>): Promise<Item[]> {
  const all: Item[] = [];
  for await (const item of items) all.push(item);
  return all;
}

/** Runs an action for each of the keys, at most 16 at the same time. */
export async function atOnce(keys: readonly string[], action: (key: string) => Promise<unknown>): Promise<void> {
  const rest = keys.values();
  await Promise.all(
    Array.from({ length: 16 }, async () => {
      for (const key of rest) await action(key);
    }),
  );
}
