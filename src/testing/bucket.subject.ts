import assert from 'node:assert/strict';
import { setImmediate } from 'node:timers/promises';
import type { Bucket } from '../ingestion/adapters/out/object-storage/bucket.js';
import { assertBytes, assertEqual } from './expectations.js';

/** The operations for which `checkRights` finds out whether the store permits them. */
export const RIGHTS = ['read', 'list', 'remove', 'removeParts'] as const satisfies readonly (keyof Bucket)[];
export type BucketRight = (typeof RIGHTS)[number];

/** A new, empty bucket to test, and access to state of its store that the port `Bucket` doesn't show. */
export interface BucketContractSubject {
  /** The bucket under test. The pages of its listings have `PAGE_SIZE` objects, if the store supports that. */
  readonly bucket: Bucket;
  /** A bucket in the same store whose prefix begins like the prefix of `bucket`, but is another one. */
  readonly neighbour: Bucket;
  /** The number of unfinished uploads to a key that left something in the store; 0 after `removeParts` of that key. */
  parts(key: string): Promise<number>;
  /** Begins an upload to a key and leaves it unfinished with one part, as a crashed process does. */
  leaveParts(key: string): Promise<void>;
  /**
   * A bucket like `bucket`, with the same objects, in whose store the clock is ahead of this machine's by `aheadMs`
   * milliseconds. Existing objects keep the time at which they were written. Needed only if the store has a clock of
   * its own.
   */
  withClockAhead?(aheadMs: number): Promise<Bucket>;
  /**
   * A bucket like `bucket`, with the same objects, whose store refuses what this operation needs, and permits all other
   * requests. Needed only if the store has rights.
   */
  without?(right: BucketRight): Promise<Bucket>;
  /** Releases the resources of the subject. */
  tearDown(): Promise<void>;
}

/** The number of objects on a page of a listing. It is small, so that a few objects take several pages. */
export const PAGE_SIZE = 7;

/** Reads and assertions that several tests of a bucket use. */
export class BucketChecks {
  constructor(private readonly subject: BucketContractSubject) {}

  /** The keys of the objects whose keys begin with a prefix, as the bucket under test lists them. */
  readonly keysUnder = async (prefix: string): Promise<string[]> => (await gather(this.subject.bucket.list(prefix))).map(({ key }) => key);

  /** Asserts that an object has these bytes. */
  readonly assertObject = async (key: string, bytes: Uint8Array): Promise<void> => {
    const opened = await this.subject.bucket.open(key);
    assert.ok(opened, `There is no object ${key}.`);
    assertBytes(Buffer.concat(await gather(opened)), bytes, `The bytes of ${key}`);
  };

  /** Asserts that the bucket has no objects, and that the store has no parts of an unfinished upload to this key. */
  readonly assertNothing = async (key: string): Promise<void> => {
    assert.equal(await this.subject.bucket.read(key), undefined, `${key} must not exist.`);
    assertEqual(await this.keysUnder(''), [], 'There are objects, although none must be left.');
    assert.equal(await this.subject.parts(key), 0, `Parts of ${key} are left.`);
  };
}

export const MIB = 1024 * 1024;
export const KEY = 'files/kind=historical/customer_id=acme/date=2025-03-30/0195e5a0-0000-7000-8000-000000000000.csv';

/** Chunk sizes that add up to `sum` bytes. The size of an upload's parts isn't a multiple of a chunk's size. */
export function oddSizes(sum: number): number[] {
  const sizes = Array<number>(Math.floor(sum / 77_777)).fill(77_777);
  return [...sizes, sum % 77_777];
}

export async function* yielding(chunks: readonly Uint8Array[]): AsyncGenerator<Uint8Array> {
  for (const chunk of chunks) {
    await setImmediate();
    yield chunk;
  }
}

export async function gather<Item>(items: AsyncIterable<Item> | Iterable<Item>): Promise<Item[]> {
  const all: Item[] = [];
  for await (const item of items) all.push(item);
  return all;
}

/** Runs an action for each of the keys, for at most 16 keys at the same time. */
export async function atOnce(keys: readonly string[], action: (key: string) => Promise<unknown>): Promise<void> {
  const rest = keys.values();
  await Promise.all(
    Array.from({ length: 16 }, async () => {
      for (const key of rest) await action(key);
    }),
  );
}
