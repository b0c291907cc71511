import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { MIB } from '../common/sizes.js';
import type { Bucket, ListedObject } from '../ingestion/adapters/out/object-storage/bucket.js';
import { PROMISES } from './bucket.promises.js';
import { atOnce, BucketChecks, type BucketContractSubject, gather, KEY, PAGE_SIZE, yielding } from './bucket.subject.js';
import { assertBytes, assertEqual, assertLength, assertMatches, eventually } from './expectations.js';
import { promisesOf } from './port-promise.js';
import type { TestRunner } from './test-runner.js';

/** The tests of `bucketContract` about reading, listing and removing objects. */
export function bucketReadingContract(subjectOf: () => BucketContractSubject, runner: TestRunner): void {
  const { describe, beforeEach } = runner;
  const it = promisesOf('Bucket', runner);

  let subject: BucketContractSubject;
  let bucket: Bucket;
  let checks: BucketChecks;
  beforeEach(() => {
    subject = subjectOf();
    ({ bucket } = subject);
    checks = new BucketChecks(subject);
    return Promise.resolve();
  });

  describe('read and open', () => {
    it(PROMISES.missing, 'resolve to undefined when there is no object', async () => {
      await bucket.create(`${KEY}.longer`, Buffer.from('bytes'));
      assert.equal(await bucket.read(KEY), undefined);
      assert.equal(await bucket.open(KEY), undefined);
    });

    for (const [what, first, last] of [
      ['the first byte', 0, 0],
      ['the last byte', 3 * MIB - 1, 3 * MIB - 1],
      ['a part', 70_001, 2 * MIB],
      ['a part that goes beyond the end', 2 * MIB, 4 * MIB],
      ['a part after the end', 3 * MIB, 4 * MIB],
    ] as const) {
      it(PROMISES.range, `open reads ${what}`, async () => {
        const bytes = randomBytes(3 * MIB);
        await bucket.upload(KEY, yielding([bytes]));
        const read = Buffer.concat(await gather((await bucket.open(KEY, { first, last })) ?? []));
        assertBytes(read, bytes.subarray(first, last + 1), 'The bytes of the range');
        assert.equal(await bucket.open('absent', { first, last }), undefined);
      });
    }

    it(PROMISES.iterator, 'still work after an object was opened and left early many times', async () => {
      const bytes = randomBytes(3 * MIB);
      await bucket.upload(KEY, yielding([bytes]));
      for (let opened = 0; opened < 100; opened++) {
        const pieces = await bucket.open(KEY);
        assert.notEqual(pieces, undefined);
        for await (const piece of pieces ?? []) {
          assertBytes(piece, bytes.subarray(0, piece.length), 'The bytes of the first piece');
          break;
        }
      }
      await checks.assertObject(KEY, bytes);
    });

    it(PROMISES.iterator, 'still work after an object was opened and closed before its first piece many times', async () => {
      await bucket.upload(KEY, yielding([randomBytes(3 * MIB)]));
      for (let opened = 0; opened < 100; opened++) {
        const pieces = await bucket.open(KEY);
        await pieces?.[Symbol.asyncIterator]().return?.();
      }
      assert.equal((await bucket.read(KEY))?.bytes.length, 3 * MIB);
    });
  });

  describe('age', () => {
    const ages = async () => [
      (await bucket.read(KEY))?.ageMs ?? Number.NaN,
      (await gather(bucket.list(KEY)))[0]?.ageMs ?? Number.NaN,
    ];

    it(PROMISES.age, 'grows from about 0, and starts again each time the object is written', async () => {
      await bucket.create(KEY, Buffer.from('first'));
      for (const age of await ages()) {
        assert.ok(age >= 0, `An age is ${age} ms.`);
        assert.ok(age < 60_000, `An object that was just written is ${age} ms old.`);
      }
      await eventually(async () => {
        for (const age of await ages()) assert.ok(age >= 2000, `Two seconds later, an age is still ${age} ms.`);
      });
      await eventually(async () => {
        await bucket.replace(KEY, Buffer.from('first'));
        for (const age of await ages()) assert.ok(age < 2000, `After the object was replaced, an age is still ${age} ms.`);
      });
    });
  });

  describe('list', () => {
    it(PROMISES.list, 'lists objects in the order of their keys, even over several pages', async () => {
      const names = ['-', '%', '.', '_', '=', '~', 'A', 'B', 'a', 'b', '0', '1', '10', '2'];
      const keys = names.flatMap((name) => [`x/${name}z`, `x/${name}q/z`, `x/q-/${name}q`]);
      const sizes = new Map(keys.map((key, index) => [key, index]));
      await atOnce([...keys].reverse(), (key) => bucket.create(key, randomBytes(sizes.get(key) ?? 0)));
      await bucket.create('w', Buffer.from('before'));
      await bucket.create('xx', Buffer.from('after'));

      const listed = await gather(bucket.list('x/'));
      const expected = [...keys].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
      assertEqual(listed.map(({ key }) => key), expected);
      assertEqual(listed.map(({ size }) => size), expected.map((key) => sizes.get(key)));
      assertEqual(await checks.keysUnder(''), ['w', ...expected, 'xx']);
    });

    for (const count of [0, 1, PAGE_SIZE - 1, PAGE_SIZE, PAGE_SIZE + 1, 2 * PAGE_SIZE] as const) {
      it(PROMISES.list, `lists each of ${count} objects once`, async () => {
        const keys = Array.from({ length: count }, (_, index) => `many/${index + 100}`);
        await atOnce(keys, (key) => bucket.create(key, Buffer.from(key)));
        assertEqual(await checks.keysUnder('many/'), keys);
      });
    }

    it(PROMISES.prefix, 'matches a prefix exactly, even one that ends within a name', async () => {
      await atOnce(['a/b-1', 'a/b-2', 'a/b/3', 'a/B-4', 'b-5'], (key) => bucket.create(key, Buffer.alloc(0)));
      assertEqual(await checks.keysUnder('a/b-'), ['a/b-1', 'a/b-2']);
      assertEqual(await checks.keysUnder('a/b'), ['a/b-1', 'a/b-2', 'a/b/3']);
      assertEqual(await checks.keysUnder('a/c'), []);
    });

    it(PROMISES.list, 'can be left early', async () => {
      await atOnce(Array.from({ length: 3 * PAGE_SIZE }, (_, index) => `many/${index}`), (key) =>
        bucket.create(key, Buffer.alloc(0)),
      );
      const first: ListedObject[] = [];
      for await (const object of bucket.list('many/')) {
        first.push(object);
        break;
      }
      assertMatches(first, [{ key: 'many/0' }]);
      assertLength(await checks.keysUnder('many/'), 3 * PAGE_SIZE);
    });

    it(PROMISES.visible, 'lists no upload that is still in progress', async () => {
      await subject.leaveParts('x/unfinished');
      await bucket.create('x/finished', Buffer.alloc(0));
      assertEqual(await checks.keysUnder('x/'), ['x/finished']);
      assert.equal(await bucket.read('x/unfinished'), undefined);
    });
  });

  describe('listAfter', () => {
    const keys = Array.from({ length: 2 * PAGE_SIZE + 1 }, (_, index) => `x/${index + 100}`);
    for (const [where, after, listed] of [
      ['with the first object, after a text before all keys', 'x/', keys],
      ['with the second object, after the key of the first', 'x/100', keys.slice(1)],
      ['in the middle, after a text that is not a key', 'x/1005', keys.slice(1)],
      ['with the last object', keys.at(-2) ?? '', keys.slice(-1)],
      ['with no object, after the key of the last', keys.at(-1) ?? '', []],
      ['with the first object, after a text before the prefix', 'w', keys],
    ] as const) {
      it(PROMISES.after, `if the store has it, begins ${where}`, async () => {
        await atOnce([...keys, 'w', 'y'], (key) => bucket.create(key, Buffer.alloc(0)));
        const found = bucket.listAfter('x/', after);
        if (found) assertEqual((await gather(found)).map(({ key }) => key), [...listed]);
      });
    }
  });

  describe('listDirectories', () => {
    it(PROMISES.directories, 'lists each directory once, even over several pages, and no objects', async () => {
      const directories = Array.from({ length: 2 * PAGE_SIZE + 1 }, (_, index) => `kind=x/date=${index + 100}/`);
      const objects = directories.flatMap((directory) => [`${directory}a`, `${directory}b/c`, `${directory}b/d`]);
      await atOnce([...objects, 'kind=x/object', 'kind=y/z'], (key) => bucket.create(key, Buffer.alloc(0)));

      assertEqual((await gather(bucket.listDirectories('kind=x/'))).sort(), directories);
      assertEqual(await gather(bucket.listDirectories('kind=x/date=100/')), ['kind=x/date=100/b/']);
      assertEqual((await gather(bucket.listDirectories('kind='))).sort(), ['kind=x/', 'kind=y/']);
      assertEqual((await gather(bucket.listDirectories(''))).sort(), ['kind=x/', 'kind=y/']);
      assertEqual(await gather(bucket.listDirectories('kind=z/')), []);
    });
  });

  describe('remove', () => {
    it(PROMISES.remove, 'removes the given objects that exist, and leaves all others', async () => {
      await atOnce(['x/a', 'x/b', 'x/b.c', 'x/d'], (key) => bucket.create(key, Buffer.from(key)));
      await bucket.remove(['x/a', 'x/absent', 'x/b']);
      await bucket.remove(['x/a', 'x/b']);
      await bucket.remove([]);
      assertEqual(await checks.keysUnder(''), ['x/b.c', 'x/d']);
    });

    it(PROMISES.remove, 'removes more than a thousand objects in one call', async () => {
      const keys = Array.from({ length: 1003 }, (_, index) => `x/${index}`);
      await atOnce([...keys, 'y'], (key) => bucket.create(key, Buffer.alloc(0)));
      await bucket.remove(keys);
      assertEqual(await checks.keysUnder(''), ['y']);
    });
  });

  describe('removeParts', () => {
    it(PROMISES.parts, 'removes the parts of unfinished uploads to a key, and nothing else', async () => {
      const others = [`${KEY}.longer`, KEY.slice(0, -1)];
      for (const key of [KEY, KEY, ...others]) await subject.leaveParts(key);
      assert.ok(!(await Promise.all([KEY, ...others].map((key) => subject.parts(key)))).includes(0));

      await bucket.removeParts(KEY);

      assert.equal(await subject.parts(KEY), 0, 'Parts are left.');
      for (const key of others) assert.equal(await subject.parts(key), 1, `The parts of ${key} must stay.`);
      assertEqual(await checks.keysUnder(''), []);
      for (const key of others) await bucket.removeParts(key);
    });

    it(PROMISES.parts, 'resolves when there are no parts, and leaves a complete object unchanged', async () => {
      await bucket.removeParts(KEY);
      await checks.assertNothing(KEY);
      await bucket.upload(KEY, yielding([Buffer.from('whole')]));
      await bucket.removeParts(KEY);
      await checks.assertObject(KEY, Buffer.from('whole'));
    });

    it(PROMISES.parts, 'leaves the key free for a new upload', async () => {
      await subject.leaveParts(KEY);
      await bucket.removeParts(KEY);
      await bucket.upload(KEY, yielding([Buffer.from('whole')]));
      await checks.assertObject(KEY, Buffer.from('whole'));
    });
  });
}
