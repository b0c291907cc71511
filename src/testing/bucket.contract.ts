import { randomBytes } from 'node:crypto';
import { EventEmitter, once } from 'node:events';
import { setImmediate } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { type Bucket, type ListedObject, ObjectExistsError } from '../ingestion/adapters/out/object-storage/bucket.js';

/** A new, empty bucket, and access to state that the port doesn't show. */
export interface BucketContractSubject {
  /** The bucket under test. Its listings have pages of `PAGE_SIZE` objects, if the store supports that. */
  readonly bucket: Bucket;
  /** A bucket in the same store, under a prefix that begins like the prefix of `bucket`. */
  readonly neighbour: Bucket;
  /** The number of unfinished uploads to a key that left something in the store; 0 after their parts were removed. */
  parts(key: string): Promise<number>;
  /** Begins an upload to a key and leaves the upload with one part, as a crashed process does. */
  leaveParts(key: string): Promise<void>;
  /** Releases the resources of the subject. */
  tearDown(): Promise<void>;
}

/** The number of objects on a page of a listing. Small, so that a few objects take several pages. */
export const PAGE_SIZE = 7;

/**
 * The tests that every `Bucket` must pass: the promises of the port that can be observed without making the store fail.
 *
 * @param setUp creates a new subject for each test.
 */
export function bucketContract(name: string, setUp: () => Promise<BucketContractSubject>): void {
  describe(`Bucket contract: ${name}`, () => {
    let subject: BucketContractSubject;
    let bucket: Bucket;
    beforeEach(async () => {
      subject = await setUp();
      bucket = subject.bucket;
    });
    afterEach(() => subject.tearDown());

    const keysUnder = async (prefix: string) => (await gather(bucket.list(prefix))).map(({ key }) => key);

    const expectBytes = async (key: string, bytes: Uint8Array) => {
      const opened = await bucket.open(key);
      expect(opened).toBeDefined();
      expect(Buffer.concat(await gather(opened ?? [])).equals(bytes)).toBe(true);
    };

    const expectNothing = async (key: string) => {
      expect(await bucket.read(key)).toBeUndefined();
      expect(await keysUnder('')).toEqual([]);
      expect(await subject.parts(key)).toBe(0);
    };

    describe('create', () => {
      it.each([0, 1, 100_000])('creates an object of %i bytes', async (size) => {
        const bytes = randomBytes(size);
        const version = await bucket.create(KEY, bytes);
        expect(version).toBeTypeOf('string');
        const read = await bucket.read(KEY);
        expect(read?.bytes.equals(bytes)).toBe(true);
        expect(read?.version).toBe(version);
        await expectBytes(KEY, bytes);
        expect(await gather(bucket.list(''))).toMatchObject([{ key: KEY, size }]);
      });

      it.each([
        ['an object', Buffer.from('first')],
        ['an empty object', Buffer.alloc(0)],
      ])('leaves %s unchanged when its key is in use', async (_, first) => {
        await bucket.create(KEY, first);
        const before = await bucket.read(KEY);
        expect(await bucket.create(KEY, Buffer.from('second'))).toBeUndefined();
        expect(await bucket.create(KEY, first)).toBeUndefined();
        expect(await bucket.create(KEY, Buffer.alloc(0))).toBeUndefined();
        expect(await bucket.read(KEY)).toMatchObject({ bytes: first, version: before?.version });
      });

      it.each([
        ['different bytes', (index: number) => Buffer.from(`writer ${index}`)],
        ['the same bytes', () => Buffer.from('fence')],
      ])('lets exactly one of sixteen simultaneous calls win (%s)', async (_, bytesOf) => {
        const versions = await Promise.all(Array.from({ length: 16 }, (_, index) => bucket.create(KEY, bytesOf(index))));
        const winners = versions.flatMap((version, index) => (version === undefined ? [] : [index]));
        expect(winners).toHaveLength(1);
        const [winner = 0] = winners;
        expect(await bucket.read(KEY)).toMatchObject({ bytes: bytesOf(winner), version: versions[winner] });
      });

      it('creates an object again after it was removed', async () => {
        await bucket.create(KEY, Buffer.from('first'));
        await bucket.remove([KEY]);
        expect(await bucket.create(KEY, Buffer.from('second'))).toBeTypeOf('string');
        await expectBytes(KEY, Buffer.from('second'));
      });
    });

    describe('replace', () => {
      it('writes an object unconditionally when no version is given', async () => {
        for (const text of ['first', 'second, longer', '']) {
          const version = await bucket.replace(KEY, Buffer.from(text));
          expect(version).toBeTypeOf('string');
          expect(await bucket.read(KEY)).toMatchObject({ bytes: Buffer.from(text), version });
        }
      });

      it('replaces an object that has the given version', async () => {
        const first = await bucket.create(KEY, Buffer.from('first'));
        const second = await bucket.replace(KEY, Buffer.from('second'), first);
        expect(second).toBeTypeOf('string');
        expect(second).not.toBe(first);
        const third = await bucket.replace(KEY, Buffer.from('third'), second);
        expect(await bucket.read(KEY)).toMatchObject({ bytes: Buffer.from('third'), version: third });
      });

      it('leaves an object of another version unchanged', async () => {
        const first = await bucket.create(KEY, Buffer.from('first'));
        const second = await bucket.replace(KEY, Buffer.from('second'), first);
        expect(await bucket.replace(KEY, Buffer.from('third'), first)).toBeUndefined();
        expect(await bucket.read(KEY)).toMatchObject({ bytes: Buffer.from('second'), version: second });
      });

      it('creates nothing when the given version was removed', async () => {
        const version = await bucket.create(KEY, Buffer.from('first'));
        await bucket.remove([KEY]);
        expect(await bucket.replace(KEY, Buffer.from('second'), version)).toBeUndefined();
        await expectNothing(KEY);
      });

      it('lets exactly one of sixteen simultaneous calls replace a version', async () => {
        const first = await bucket.create(KEY, Buffer.from('first'));
        const bytesOf = (index: number) => Buffer.from(`writer ${index}`);
        const versions = await Promise.all(
          Array.from({ length: 16 }, (_, index) => bucket.replace(KEY, bytesOf(index), first)),
        );
        const winners = versions.flatMap((version, index) => (version === undefined ? [] : [index]));
        expect(winners).toHaveLength(1);
        const [winner = 0] = winners;
        expect(await bucket.read(KEY)).toMatchObject({ bytes: bytesOf(winner), version: versions[winner] });
      });
    });

    describe('upload', () => {
      it.each([
        ['no chunks', []],
        ['empty chunks', [0, 0]],
        ['one byte', [1]],
        ['chunks of odd sizes', [1, 0, 65_537, 3]],
        ['one chunk of 6 MiB', [6 * MIB]],
        ['6 MiB in chunks of odd sizes', oddSizes(6 * MIB)],
        ['12 MiB in chunks of odd sizes', oddSizes(12 * MIB)],
        ['two chunks of exactly 5 MiB', [5 * MIB, 5 * MIB]],
      ])('stores the bytes of %s in order', async (_, sizes) => {
        const chunks = sizes.map((size) => randomBytes(size));
        await bucket.upload(KEY, yielding(chunks));
        await expectBytes(KEY, Buffer.concat(chunks));
        const size = sizes.reduce((sum, each) => sum + each, 0);
        expect(await gather(bucket.list(''))).toMatchObject([{ key: KEY, size }]);
        expect(await subject.parts(KEY)).toBe(0);
      });

      it.each([0, 1, 12 * MIB])('shows no object until the bytes have ended (%i bytes)', async (size) => {
        const bytes = randomBytes(size);
        const seen: unknown[] = [];
        await bucket.upload(
          KEY,
          (async function* () {
            yield* yielding([bytes]);
            seen.push(await bucket.read(KEY), ...(await keysUnder('')));
          })(),
        );
        expect(seen).toEqual([undefined]);
        await expectBytes(KEY, bytes);
      });

      it.each([0, 1, 12 * MIB])('rejects with ObjectExistsError when the key is in use, and leaves its object unchanged (%i bytes)', async (size) => {
        await bucket.create(KEY, Buffer.from('first'));
        const outcome = await bucket.upload(KEY, yielding([randomBytes(size)])).catch((error: unknown) => error);
        expect(outcome).toBeInstanceOf(ObjectExistsError);
        await expectBytes(KEY, Buffer.from('first'));
        expect(await subject.parts(KEY)).toBe(0);
      });

      it('lets exactly one of four simultaneous uploads win', async () => {
        const bytes = Array.from({ length: 4 }, (_, index) => randomBytes(index % 2 ? 6 * MIB : 1000));
        const outcomes = await Promise.allSettled(bytes.map((each) => bucket.upload(KEY, yielding([each]))));
        const winners = outcomes.flatMap(({ status }, index) => (status === 'fulfilled' ? [index] : []));
        expect(winners).toHaveLength(1);
        for (const outcome of outcomes) {
          if (outcome.status === 'rejected') expect(outcome.reason).toBeInstanceOf(ObjectExistsError);
        }
        await expectBytes(KEY, bytes[winners[0] ?? 0] ?? Buffer.alloc(0));
        expect(await subject.parts(KEY)).toBe(0);
      });

      it.each([
        ['before the first byte', []],
        ['after the first byte', [1]],
        ['in the middle of a part', [3 * MIB]],
        ['between two parts', [5 * MIB]],
        ['after 12 MiB', oddSizes(12 * MIB)],
      ])('rejects with the error that the bytes threw, and leaves nothing behind (%s)', async (_, sizes) => {
        const broken = new Error('the client went away');
        const bytes = (async function* () {
          yield* yielding(sizes.map((size) => randomBytes(size)));
          throw broken;
        })();
        expect(await bucket.upload(KEY, bytes).catch((error: unknown) => error)).toBe(broken);
        await expectNothing(KEY);
      });

      it.each([
        ['before the first byte', 0],
        ['in the middle of a part', 3 * MIB],
        ['after 12 MiB', 12 * MIB],
      ])('rejects with the error that the bytes threw after a stall, and leaves nothing behind (%s)', async (_, size) => {
        const broken = new Error('the client was silent for too long');
        const source = new EventEmitter();
        const isStalled = once(source, 'stalled');
        const bytes = (async function* () {
          if (size > 0) yield* yielding([randomBytes(size)]);
          source.emit('stalled');
          await once(source, 'broken');
          throw broken;
        })();
        const uploading = bucket.upload(KEY, bytes).catch((error: unknown) => error);
        await isStalled;
        if (size > 10 * MIB) await vi.waitFor(async () => { expect(await subject.parts(KEY)).toBe(1); }, PATIENCE);
        source.emit('broken');
        expect(await uploading).toBe(broken);
        await expectNothing(KEY);
      });

      it('accepts an upload to a key whose earlier upload failed', async () => {
        const broken = new Error('the client went away');
        const bytes = (async function* () {
          yield* yielding([randomBytes(6 * MIB)]);
          throw broken;
        })();
        await expect(bucket.upload(KEY, bytes)).rejects.toBe(broken);
        await bucket.upload(KEY, yielding([Buffer.from('again')]));
        await expectBytes(KEY, Buffer.from('again'));
      });
    });

    describe('read and open', () => {
      it('resolve to undefined when there is no object', async () => {
        await bucket.create(`${KEY}.longer`, Buffer.from('bytes'));
        expect(await bucket.read(KEY)).toBeUndefined();
        expect(await bucket.open(KEY)).toBeUndefined();
      });

      it.each([
        ['the first byte', 0, 0],
        ['the last byte', 3 * MIB - 1, 3 * MIB - 1],
        ['a part', 70_001, 2 * MIB],
        ['a part that goes beyond the end', 2 * MIB, 4 * MIB],
        ['a part after the end', 3 * MIB, 4 * MIB],
      ])('open reads %s', async (_, first, last) => {
        const bytes = randomBytes(3 * MIB);
        await bucket.upload(KEY, yielding([bytes]));
        const read = Buffer.concat(await gather((await bucket.open(KEY, { first, last })) ?? []));
        expect(read.equals(bytes.subarray(first, last + 1))).toBe(true);
        expect(await bucket.open('absent', { first, last })).toBeUndefined();
      });

      it('still work after an object was opened and left early many times', async () => {
        const bytes = randomBytes(3 * MIB);
        await bucket.upload(KEY, yielding([bytes]));
        for (let opened = 0; opened < 100; opened++) {
          const pieces = await bucket.open(KEY);
          expect(pieces).toBeDefined();
          for await (const piece of pieces ?? []) {
            expect(bytes.subarray(0, piece.length).equals(piece)).toBe(true);
            break;
          }
        }
        await expectBytes(KEY, bytes);
      });

      it('still work after an object was opened and closed before its first piece many times', async () => {
        await bucket.upload(KEY, yielding([randomBytes(3 * MIB)]));
        for (let opened = 0; opened < 100; opened++) {
          const pieces = await bucket.open(KEY);
          await pieces?.[Symbol.asyncIterator]().return?.();
        }
        expect((await bucket.read(KEY))?.bytes).toHaveLength(3 * MIB);
      });
    });

    describe('age', () => {
      const ages = async () => [
        (await bucket.read(KEY))?.ageMs ?? Number.NaN,
        (await gather(bucket.list(KEY)))[0]?.ageMs ?? Number.NaN,
      ];

      it('grows from about 0, and starts again each time the object is written', async () => {
        await bucket.create(KEY, Buffer.from('first'));
        for (const age of await ages()) {
          expect(age).toBeGreaterThanOrEqual(0);
          expect(age).toBeLessThan(60_000);
        }
        await vi.waitFor(async () => {
          for (const age of await ages()) expect(age).toBeGreaterThanOrEqual(2000);
        }, PATIENCE);
        await vi.waitFor(async () => {
          await bucket.replace(KEY, Buffer.from('first'));
          for (const age of await ages()) expect(age).toBeLessThan(2000);
        }, PATIENCE);
      });
    });

    describe('list', () => {
      it('lists objects in the order of their keys, even over several pages', async () => {
        const names = ['-', '%', '.', '_', '=', '~', 'A', 'B', 'a', 'b', '0', '1', '10', '2'];
        const keys = names.flatMap((name) => [`x/${name}z`, `x/${name}q/z`, `x/q-/${name}q`]);
        const sizes = new Map(keys.map((key, index) => [key, index]));
        await atOnce([...keys].reverse(), (key) => bucket.create(key, randomBytes(sizes.get(key) ?? 0)));
        await bucket.create('w', Buffer.from('before'));
        await bucket.create('xx', Buffer.from('after'));

        const listed = await gather(bucket.list('x/'));
        const expected = [...keys].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
        expect(listed.map(({ key }) => key)).toEqual(expected);
        expect(listed.map(({ size }) => size)).toEqual(expected.map((key) => sizes.get(key)));
        expect(await keysUnder('')).toEqual(['w', ...expected, 'xx']);
      });

      it.each([0, 1, PAGE_SIZE - 1, PAGE_SIZE, PAGE_SIZE + 1, 2 * PAGE_SIZE])('lists each of %i objects once', async (count) => {
        const keys = Array.from({ length: count }, (_, index) => `many/${index + 100}`);
        await atOnce(keys, (key) => bucket.create(key, Buffer.from(key)));
        expect(await keysUnder('many/')).toEqual(keys);
      });

      it('matches a prefix exactly, even one that ends within a name', async () => {
        await atOnce(['a/b-1', 'a/b-2', 'a/b/3', 'a/B-4', 'b-5'], (key) => bucket.create(key, Buffer.alloc(0)));
        expect(await keysUnder('a/b-')).toEqual(['a/b-1', 'a/b-2']);
        expect(await keysUnder('a/b')).toEqual(['a/b-1', 'a/b-2', 'a/b/3']);
        expect(await keysUnder('a/c')).toEqual([]);
      });

      it('can be left early', async () => {
        await atOnce(Array.from({ length: 3 * PAGE_SIZE }, (_, index) => `many/${index}`), (key) =>
          bucket.create(key, Buffer.alloc(0)),
        );
        const first: ListedObject[] = [];
        for await (const object of bucket.list('many/')) {
          first.push(object);
          break;
        }
        expect(first).toMatchObject([{ key: 'many/0' }]);
        expect(await keysUnder('many/')).toHaveLength(3 * PAGE_SIZE);
      });

      it('lists no upload that is still in progress', async () => {
        await subject.leaveParts('x/unfinished');
        await bucket.create('x/finished', Buffer.alloc(0));
        expect(await keysUnder('x/')).toEqual(['x/finished']);
        expect(await bucket.read('x/unfinished')).toBeUndefined();
      });
    });

    describe('listDirectories', () => {
      it('lists each directory once, even over several pages, and no objects', async () => {
        const directories = Array.from({ length: 2 * PAGE_SIZE + 1 }, (_, index) => `kind=x/date=${index + 100}/`);
        const objects = directories.flatMap((directory) => [`${directory}a`, `${directory}b/c`, `${directory}b/d`]);
        await atOnce([...objects, 'kind=x/object', 'kind=y/z'], (key) => bucket.create(key, Buffer.alloc(0)));

        expect((await gather(bucket.listDirectories('kind=x/'))).sort()).toEqual(directories);
        expect(await gather(bucket.listDirectories('kind=x/date=100/'))).toEqual(['kind=x/date=100/b/']);
        expect((await gather(bucket.listDirectories('kind='))).sort()).toEqual(['kind=x/', 'kind=y/']);
        expect((await gather(bucket.listDirectories(''))).sort()).toEqual(['kind=x/', 'kind=y/']);
        expect(await gather(bucket.listDirectories('kind=z/'))).toEqual([]);
      });
    });

    describe('remove', () => {
      it('removes the given objects that exist, and leaves all others', async () => {
        await atOnce(['x/a', 'x/b', 'x/b.c', 'x/d'], (key) => bucket.create(key, Buffer.from(key)));
        await bucket.remove(['x/a', 'x/absent', 'x/b']);
        await bucket.remove(['x/a', 'x/b']);
        await bucket.remove([]);
        expect(await keysUnder('')).toEqual(['x/b.c', 'x/d']);
      });

      it('removes more than a thousand objects in one call', async () => {
        const keys = Array.from({ length: 1003 }, (_, index) => `x/${index}`);
        await atOnce([...keys, 'y'], (key) => bucket.create(key, Buffer.alloc(0)));
        await bucket.remove(keys);
        expect(await keysUnder('')).toEqual(['y']);
      });
    });

    describe('removeParts', () => {
      it('removes the parts of unfinished uploads to a key, and nothing else', async () => {
        const others = [`${KEY}.longer`, KEY.slice(0, -1)];
        for (const key of [KEY, KEY, ...others]) await subject.leaveParts(key);
        expect(await Promise.all([KEY, ...others].map((key) => subject.parts(key)))).not.toContain(0);

        await bucket.removeParts(KEY);

        expect(await subject.parts(KEY)).toBe(0);
        for (const key of others) expect(await subject.parts(key)).toBe(1);
        expect(await keysUnder('')).toEqual([]);
        for (const key of others) await bucket.removeParts(key);
      });

      it('resolves when there are no parts, and leaves a complete object unchanged', async () => {
        await bucket.removeParts(KEY);
        await expectNothing(KEY);
        await bucket.upload(KEY, yielding([Buffer.from('whole')]));
        await bucket.removeParts(KEY);
        await expectBytes(KEY, Buffer.from('whole'));
      });

      it('leaves the key free for a new upload', async () => {
        await subject.leaveParts(KEY);
        await bucket.removeParts(KEY);
        await bucket.upload(KEY, yielding([Buffer.from('whole')]));
        await expectBytes(KEY, Buffer.from('whole'));
      });
    });

    describe('checkRights', () => {
      it('resolves when every operation is allowed, and leaves nothing behind', async () => {
        await bucket.create('x', Buffer.from('bytes'));
        await bucket.checkRights('health-rights');
        await bucket.checkRights('health-rights');
        expect(await keysUnder('')).toEqual(['x']);
        await expectBytes('x', Buffer.from('bytes'));
      });
    });

    it("reports no offset when this machine's clock and the store's agree", async () => {
      await bucket.create(KEY, Buffer.from('bytes'));
      expect(bucket.clockOffsetMs).toBe(0);
    });

    it.each([
      'uploads/kind=historical/date=2025-03-30/0195e5a0-0000-7000-8000-000000000000.ndjson',
      'files/kind=nowcast/customer_id=Z%C3%BCrich%20%26%20Co/date=2025-03-30/0195e5a0.csv',
      'files/kind=nowcast/customer_id=%2E%2E/date=2025-03-30/0195e5a0.gz',
      'files/kind=nowcast/customer_id=%2F..%2F%25/date=2025-03-30/0195e5a0',
      'files/kind=nowcast/customer_id=Co./date=2025-03-30/0195e5a0.x',
      'files/kind=nowcast/customer_id=...-_-A-Za-z0-9/date=2025-03-30/0195e5a0.ndjson',
      `files/kind=nowcast/customer_id=${'%E9%9B%BB'.repeat(26)}/date=2025-03-30/0195e5a0.csv`,
      'staging/0195e5a0-0000-7000-8000-000000000000',
      'idempotency/e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855',
    ])('uses a key exactly as given: %s', async (key) => {
      const version = await bucket.create(key, Buffer.from('created'));
      expect(await bucket.create(key, Buffer.from('again'))).toBeUndefined();
      await bucket.replace(key, Buffer.from('replaced'), version);
      expect((await bucket.read(key))?.bytes.toString()).toBe('replaced');
      expect(await keysUnder(key)).toEqual([key]);
      const parent = key.slice(0, key.lastIndexOf('/') + 1);
      expect(await gather(bucket.listDirectories(parent.slice(0, -1)))).toEqual([parent]);
      await bucket.remove([key]);
      await bucket.upload(key, yielding([Buffer.from('uploaded')]));
      await expectBytes(key, Buffer.from('uploaded'));
      await subject.leaveParts(key);
      await bucket.removeParts(key);
      expect(await subject.parts(key)).toBe(0);
      await bucket.remove([key]);
      await expectNothing(key);
    });

    it('neither sees nor changes what a neighbour stores under another prefix', async () => {
      const { neighbour } = subject;
      await bucket.create('x/a', Buffer.from('ours'));
      expect(await neighbour.create('x/a', Buffer.from('theirs'))).toBeTypeOf('string');
      await neighbour.upload('y/b', yielding([Buffer.from('theirs')]));

      expect(await keysUnder('')).toEqual(['x/a']);
      expect(await gather(bucket.listDirectories(''))).toEqual(['x/']);
      expect(await bucket.read('y/b')).toBeUndefined();
      await bucket.remove(['x/a', 'y/b']);
      await subject.leaveParts('x/c');
      await neighbour.removeParts('x/c');
      expect(await subject.parts('x/c')).toBe(1);
      await bucket.removeParts('x/c');

      expect((await gather(neighbour.list(''))).map(({ key }) => key)).toEqual(['x/a', 'y/b']);
      expect((await neighbour.read('x/a'))?.bytes.toString()).toBe('theirs');
    });
  });
}

const MIB = 1024 * 1024;
const KEY = 'files/kind=historical/customer_id=acme/date=2025-03-30/0195e5a0-0000-7000-8000-000000000000.csv';
const PATIENCE = { timeout: 20_000, interval: 50 };

/** Chunk sizes that add up to `sum`. The size of a part is no multiple of them. */
function oddSizes(sum: number): number[] {
  const sizes = Array<number>(Math.floor(sum / 77_777)).fill(77_777);
  return [...sizes, sum % 77_777];
}

async function* yielding(chunks: readonly Uint8Array[]): AsyncGenerator<Uint8Array> {
  for (const chunk of chunks) {
    await setImmediate();
    yield chunk;
  }
}

async function gather<Item>(items: AsyncIterable<Item> | Iterable<Item>): Promise<Item[]> {
  const all: Item[] = [];
  for await (const item of items) all.push(item);
  return all;
}

/** Runs an action for all keys, 16 at a time. */
async function atOnce(keys: readonly string[], action: (key: string) => Promise<unknown>): Promise<void> {
  const rest = keys.values();
  await Promise.all(
    Array.from({ length: 16 }, async () => {
      for (const key of rest) await action(key);
    }),
  );
}
