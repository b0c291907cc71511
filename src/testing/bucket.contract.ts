import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { MINUTE_MS } from '../common/durations.js';
import { MIB } from '../common/sizes.js';
import { type Bucket, MissingRightError } from '../ingestion/adapters/out/object-storage/bucket.js';
import { bucketReadingContract } from './bucket-reading.contract.js';
import { bucketUploadContract } from './bucket-upload.contract.js';
import { PROMISES } from './bucket.promises.js';
import { BucketChecks, type BucketContractSubject, type BucketRight, gather, KEY, PAGE_SIZE, RIGHTS, yielding } from './bucket.subject.js';
import { assertBytes, assertEqual, assertInstance, assertLength, assertMatches, rejectionOf } from './expectations.js';
import { promisesOf } from './port-promise.js';
import { currentTestRunner, type TestRunner } from './test-runner.js';

export { type BucketContractSubject, type BucketRight, PAGE_SIZE };

/** The tolerance for times. A store may round them to whole seconds, and a busy machine is late. */
const SLACK_MS = 30_000;

/**
 * Defines the tests that every `Bucket` (a connection to an object store) must pass.
 *
 * @param setUp creates a new, empty bucket for each test.
 * @param runner default: the global functions of the running test runner, or Vitest's own.
 */
export function bucketContract(name: string, setUp: () => Promise<BucketContractSubject>, runner: TestRunner = currentTestRunner()): void {
  const { describe, beforeEach, afterEach } = runner;
  const it = promisesOf('Bucket', runner);

  describe(`Bucket contract: ${name}`, () => {
    let subject: BucketContractSubject;
    let bucket: Bucket;
    let checks: BucketChecks;
    beforeEach(async () => {
      subject = await setUp();
      ({ bucket } = subject);
      checks = new BucketChecks(subject);
    });
    afterEach(() => subject.tearDown());

    describe('create', () => {
      for (const size of [0, 1, 100_000] as const) {
        it(PROMISES.create, `creates an object of ${size} bytes`, async () => {
          const bytes = randomBytes(size);
          const version = await bucket.create(KEY, bytes);
          assert.equal(typeof version, 'string');
          const read = await bucket.read(KEY);
          assertBytes(read?.bytes, bytes, 'The bytes of read()');
          assert.equal(read?.version, version);
          await checks.assertObject(KEY, bytes);
          assertMatches(await gather(bucket.list('')), [{ key: KEY, size }]);
        });
      }

      for (const [what, first] of [
        ['an object', Buffer.from('first')],
        ['an empty object', Buffer.alloc(0)],
      ] as const) {
        it(PROMISES.taken, `leaves ${what} unchanged when its key is in use`, async () => {
          await bucket.create(KEY, first);
          const before = await bucket.read(KEY);
          assert.equal(await bucket.create(KEY, Buffer.from('second')), undefined);
          assert.equal(await bucket.create(KEY, first), undefined);
          assert.equal(await bucket.create(KEY, Buffer.alloc(0)), undefined);
          assertMatches(await bucket.read(KEY), { bytes: first, version: before?.version });
        });
      }

      for (const [what, bytesOf] of [
        ['different bytes', (index: number) => Buffer.from(`writer ${index}`)],
        ['the same bytes', () => Buffer.from('fence')],
      ] as const) {
        it(PROMISES.taken, `lets exactly one of sixteen simultaneous calls win (${what})`, async () => {
          const versions = await Promise.all(Array.from({ length: 16 }, (_, index) => bucket.create(KEY, bytesOf(index))));
          const winners = versions.flatMap((version, index) => (version === undefined ? [] : [index]));
          assertLength(winners, 1, `${winners.length} simultaneous calls won, instead of 1.`);
          const [winner = 0] = winners;
          assertMatches(await bucket.read(KEY), { bytes: bytesOf(winner), version: versions[winner] });
        });
      }

      it(PROMISES.create, 'creates an object again after it was removed', async () => {
        await bucket.create(KEY, Buffer.from('first'));
        await bucket.remove([KEY]);
        assert.equal(typeof (await bucket.create(KEY, Buffer.from('second'))), 'string');
        await checks.assertObject(KEY, Buffer.from('second'));
      });
    });

    describe('replace', () => {
      it(PROMISES.replace, 'writes an object unconditionally when no version is given', async () => {
        for (const text of ['first', 'second, longer', '']) {
          const version = await bucket.replace(KEY, Buffer.from(text));
          assert.equal(typeof version, 'string');
          assertMatches(await bucket.read(KEY), { bytes: Buffer.from(text), version });
        }
      });

      it(PROMISES.version, 'replaces an object that has the given version', async () => {
        const first = await bucket.create(KEY, Buffer.from('first'));
        const second = await bucket.replace(KEY, Buffer.from('second'), first);
        assert.equal(typeof second, 'string');
        assert.notEqual(second, first);
        const third = await bucket.replace(KEY, Buffer.from('third'), second);
        assertMatches(await bucket.read(KEY), { bytes: Buffer.from('third'), version: third });
      });

      it(PROMISES.version, 'leaves an object of another version unchanged', async () => {
        const first = await bucket.create(KEY, Buffer.from('first'));
        const second = await bucket.replace(KEY, Buffer.from('second'), first);
        assert.equal(await bucket.replace(KEY, Buffer.from('third'), first), undefined);
        assertMatches(await bucket.read(KEY), { bytes: Buffer.from('second'), version: second });
      });

      it(PROMISES.version, 'creates nothing when the given version was removed', async () => {
        const version = await bucket.create(KEY, Buffer.from('first'));
        await bucket.remove([KEY]);
        assert.equal(await bucket.replace(KEY, Buffer.from('second'), version), undefined);
        await checks.assertNothing(KEY);
      });

      it(PROMISES.version, 'lets exactly one of sixteen simultaneous calls replace a version', async () => {
        const first = await bucket.create(KEY, Buffer.from('first'));
        const bytesOf = (index: number) => Buffer.from(`writer ${index}`);
        const versions = await Promise.all(
          Array.from({ length: 16 }, (_, index) => bucket.replace(KEY, bytesOf(index), first)),
        );
        const winners = versions.flatMap((version, index) => (version === undefined ? [] : [index]));
        assertLength(winners, 1, `${winners.length} simultaneous calls won, instead of 1.`);
        const [winner = 0] = winners;
        assertMatches(await bucket.read(KEY), { bytes: bytesOf(winner), version: versions[winner] });
      });
    });

    bucketUploadContract(() => subject, runner);

    describe('checkRights', () => {
      it(PROMISES.rights, 'resolves when every operation is allowed, and leaves nothing behind', async () => {
        await bucket.create('x', Buffer.from('bytes'));
        await bucket.checkRights('health-rights');
        await bucket.checkRights('health-rights');
        assertEqual(await checks.keysUnder(''), ['x']);
        await checks.assertObject('x', Buffer.from('bytes'));
      });

      for (const right of RIGHTS) {
        it(PROMISES.refused, `rejects when the store refuses what ${right} needs`, async () => {
          if (!subject.without) return;
          const restricted = await subject.without(right);
          assertInstance(await rejectionOf(restricted.checkRights('health-rights')), MissingRightError);
        });
      }
    });

    describe("the store's clock", () => {
      const assertAhead = (actualMs: number, expectedMs: number, what: string) => {
        assert.ok(Math.abs(actualMs - expectedMs) < SLACK_MS, `${what} is ahead of this machine's time by ${actualMs} ms, instead of ${expectedMs} ms.`);
      };

      it(PROMISES.clock, 'reports no offset when the clocks of this machine and of the store agree', async () => {
        assertAhead(bucket.storeTime - Date.now(), 0, 'storeTime before the first answer');
        await bucket.create(KEY, Buffer.from('bytes'));
        assert.equal(bucket.clockOffsetMs, 0);
        assertAhead(bucket.storeTime - Date.now(), 0, 'storeTime');
      });

      for (const [what, call] of [
        ['create', (other: Bucket) => other.create('other', Buffer.from('bytes'))],
        ['replace', (other: Bucket) => other.replace(KEY, Buffer.from('bytes'))],
        ['a small upload', (other: Bucket) => other.upload('other', yielding([Buffer.from('bytes')]))],
        ['a large upload', (other: Bucket) => other.upload('other', yielding([randomBytes(6 * MIB)]))],
        ['read', (other: Bucket) => other.read(KEY)],
        ['list', (other: Bucket) => gather(other.list(''))],
      ] as const) {
        for (const minutes of [10, -10] as const) {
          it(PROMISES.storeTime, `is known after ${what} (${minutes} minutes ahead)`, async () => {
            await bucket.create(KEY, Buffer.from('bytes'));
            const other = await subject.withClockAhead?.(minutes * MINUTE_MS);
            if (!other) return;
            await call(other);
            assertAhead(other.storeTime - Date.now(), minutes * MINUTE_MS, 'storeTime');
            assertAhead(other.clockOffsetMs, minutes * MINUTE_MS, 'The clock of clockOffsetMs');
          });
        }
      }

      it(PROMISES.clock, 'has no offset below four minutes, although the time is known', async () => {
        await bucket.create(KEY, Buffer.from('bytes'));
        const other = await subject.withClockAhead?.(2 * MINUTE_MS);
        if (!other) return;
        await other.read(KEY);
        assert.equal(other.clockOffsetMs, 0);
        assertAhead(other.storeTime - Date.now(), 2 * MINUTE_MS, 'storeTime');
      });

      it(PROMISES.age, 'determines the age of objects', async () => {
        await bucket.create(KEY, Buffer.from('bytes'));
        const other = await subject.withClockAhead?.(10 * MINUTE_MS);
        if (!other) return;
        const listed = await gather(other.list(KEY));
        for (const age of [(await other.read(KEY))?.ageMs ?? Number.NaN, listed[0]?.ageMs ?? Number.NaN]) {
          assert.ok(Math.abs(age - 10 * MINUTE_MS) < SLACK_MS, `By the store's clock, the object is ten minutes old, but its age is ${age} ms.`);
        }
      });
    });

    for (const key of [
      'uploads/kind=historical/date=2025-03-30/0195e5a0-0000-7000-8000-000000000000.ndjson',
      'files/kind=nowcast/customer_id=Z%C3%BCrich%20%26%20Co/date=2025-03-30/0195e5a0.csv',
      'files/kind=nowcast/customer_id=%2E%2E/date=2025-03-30/0195e5a0.gz',
      'files/kind=nowcast/customer_id=%2F..%2F%25/date=2025-03-30/0195e5a0',
      'files/kind=nowcast/customer_id=Co./date=2025-03-30/0195e5a0.x',
      'files/kind=nowcast/customer_id=...-_-A-Za-z0-9/date=2025-03-30/0195e5a0.ndjson',
      `files/kind=nowcast/customer_id=${'%E9%9B%BB'.repeat(26)}/date=2025-03-30/0195e5a0.csv`,
      'staging/0195e5a0-0000-7000-8000-000000000000',
      'idempotency/e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855',
    ] as const) {
      it(PROMISES.keys, `uses a key exactly as given: ${key}`, async () => {
        const version = await bucket.create(key, Buffer.from('created'));
        assert.equal(await bucket.create(key, Buffer.from('again')), undefined);
        await bucket.replace(key, Buffer.from('replaced'), version);
        assert.equal((await bucket.read(key))?.bytes.toString(), 'replaced');
        assertEqual(await checks.keysUnder(key), [key]);
        const parent = key.slice(0, key.lastIndexOf('/') + 1);
        assertEqual(await gather(bucket.listDirectories(parent.slice(0, -1))), [parent]);
        await bucket.remove([key]);
        await bucket.upload(key, yielding([Buffer.from('uploaded')]));
        await checks.assertObject(key, Buffer.from('uploaded'));
        await subject.leaveParts(key);
        await bucket.removeParts(key);
        assert.equal(await subject.parts(key), 0, 'Parts are left.');
        await bucket.remove([key]);
        await checks.assertNothing(key);
      });
    }

    bucketReadingContract(() => subject, runner);

    it(PROMISES.prefixes, 'neither sees nor changes what a neighbour stores under another prefix', async () => {
      const { neighbour } = subject;
      await bucket.create('x/a', Buffer.from('ours'));
      assert.equal(typeof (await neighbour.create('x/a', Buffer.from('theirs'))), 'string');
      await neighbour.upload('y/b', yielding([Buffer.from('theirs')]));

      assertEqual(await checks.keysUnder(''), ['x/a']);
      assertEqual(await gather(bucket.listDirectories('')), ['x/']);
      assert.equal(await bucket.read('y/b'), undefined);
      await bucket.remove(['x/a', 'y/b']);
      await subject.leaveParts('x/c');
      await neighbour.removeParts('x/c');
      assert.equal(await subject.parts('x/c'), 1);
      await bucket.removeParts('x/c');

      assertEqual((await gather(neighbour.list(''))).map(({ key }) => key), ['x/a', 'y/b']);
      assert.equal((await neighbour.read('x/a'))?.bytes.toString(), 'theirs');
    });
  });
}
