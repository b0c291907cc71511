import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { EventEmitter, once } from 'node:events';
import { MIB } from '../common/sizes.js';
import { type Bucket, ObjectExistsError } from '../ingestion/adapters/out/object-storage/bucket.js';
import { PROMISES } from './bucket.promises.js';
import { BucketChecks, type BucketContractSubject, gather, KEY, oddSizes, yielding } from './bucket.subject.js';
import { assertEqual, assertInstance, assertLength, assertMatches, eventually, rejectionOf } from './expectations.js';
import { promisesOf } from './port-promise.js';
import type { TestRunner } from './test-runner.js';

/** The tests of `bucketContract` about uploading objects. */
export function bucketUploadContract(subjectOf: () => BucketContractSubject, runner: TestRunner): void {
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

  describe('upload', () => {
    for (const [what, sizes] of [
      ['no chunks', []],
      ['empty chunks', [0, 0]],
      ['one byte', [1]],
      ['chunks of odd sizes', [1, 0, 65_537, 3]],
      ['one chunk of 6 MiB', [6 * MIB]],
      ['6 MiB in chunks of odd sizes', oddSizes(6 * MIB)],
      ['12 MiB in chunks of odd sizes', oddSizes(12 * MIB)],
      ['two chunks of exactly 5 MiB', [5 * MIB, 5 * MIB]],
    ] as const) {
      it(PROMISES.upload, `stores the bytes of ${what} in order`, async () => {
        const chunks = sizes.map((size) => randomBytes(size));
        await bucket.upload(KEY, yielding(chunks));
        await checks.assertObject(KEY, Buffer.concat(chunks));
        const size = sizes.reduce((sum, each) => sum + each, 0);
        assertMatches(await gather(bucket.list('')), [{ key: KEY, size }]);
        assert.equal(await subject.parts(KEY), 0, 'Parts are left.');
      });
    }

    for (const size of [0, 1, 12 * MIB] as const) {
      it(PROMISES.visible, `shows no object until the bytes have ended (${size} bytes)`, async () => {
        const bytes = randomBytes(size);
        const seen: unknown[] = [];
        await bucket.upload(
          KEY,
          (async function* () {
            yield* yielding([bytes]);
            seen.push(await bucket.read(KEY), ...(await checks.keysUnder('')));
          })(),
        );
        assertEqual(seen, [undefined]);
        await checks.assertObject(KEY, bytes);
      });
    }

    for (const size of [0, 1, 12 * MIB] as const) {
      it(PROMISES.exists, `rejects with ObjectExistsError when the key is in use, and leaves its object unchanged (${size} bytes)`, async () => {
        await bucket.create(KEY, Buffer.from('first'));
        const outcome = await bucket.upload(KEY, yielding([randomBytes(size)])).catch((error: unknown) => error);
        assertInstance(outcome, ObjectExistsError);
        await checks.assertObject(KEY, Buffer.from('first'));
        assert.equal(await subject.parts(KEY), 0, 'Parts are left.');
      });
    }

    it(PROMISES.exists, 'lets exactly one of four simultaneous uploads win', async () => {
      const bytes = Array.from({ length: 4 }, (_, index) => randomBytes(index % 2 ? 6 * MIB : 1000));
      const outcomes = await Promise.allSettled(bytes.map((each) => bucket.upload(KEY, yielding([each]))));
      const winners = outcomes.flatMap(({ status }, index) => (status === 'fulfilled' ? [index] : []));
      assertLength(winners, 1, `${winners.length} simultaneous calls won, instead of 1.`);
      for (const outcome of outcomes) {
        if (outcome.status === 'rejected') assertInstance(outcome.reason, ObjectExistsError);
      }
      await checks.assertObject(KEY, bytes[winners[0] ?? 0] ?? Buffer.alloc(0));
      assert.equal(await subject.parts(KEY), 0, 'Parts are left.');
    });

    for (const [what, sizes] of [
      ['before the first byte', []],
      ['after the first byte', [1]],
      ['in the middle of a part', [3 * MIB]],
      ['between two parts', [5 * MIB]],
      ['after 12 MiB', oddSizes(12 * MIB)],
    ] as const) {
      it(PROMISES.errors, `rejects with the error that the bytes threw, and leaves nothing behind (${what})`, async () => {
        const broken = new Error('the client went away');
        const bytes = (async function* () {
          yield* yielding(sizes.map((size) => randomBytes(size)));
          throw broken;
        })();
        assert.equal(await bucket.upload(KEY, bytes).catch((error: unknown) => error), broken);
        await checks.assertNothing(KEY);
      });
    }

    for (const [what, size] of [
      ['before the first byte', 0],
      ['in the middle of a part', 3 * MIB],
      ['after 12 MiB', 12 * MIB],
    ] as const) {
      it(PROMISES.errors, `rejects with the error that the bytes threw after a stall, and leaves nothing behind (${what})`, async () => {
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
        if (size > 10 * MIB) await eventually(async () => { assert.equal(await subject.parts(KEY), 1, 'There must be one unfinished upload.'); });
        source.emit('broken');
        assert.equal(await uploading, broken);
        await checks.assertNothing(KEY);
      });
    }

    it(PROMISES.errors, 'accepts an upload to a key whose earlier upload failed', async () => {
      const broken = new Error('the client went away');
      const bytes = (async function* () {
        yield* yielding([randomBytes(6 * MIB)]);
        throw broken;
      })();
      assert.equal(await rejectionOf(bucket.upload(KEY, bytes)), broken);
      await bucket.upload(KEY, yielding([Buffer.from('again')]));
      await checks.assertObject(KEY, Buffer.from('again'));
    });
  });
}
