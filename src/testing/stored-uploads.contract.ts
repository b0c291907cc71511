import assert from 'node:assert/strict';
import { HOUR_MS } from '../common/durations.js';
import type { FileStorage } from '../ingestion/application/ports/file-storage.port.js';
import { comparePositions } from '../ingestion/domain/upload-filter.js';
import type { Upload } from '../ingestion/domain/upload.js';
import { MIB } from '../common/sizes.js';
import { assertBytes, assertEqual, assertLength, assertMatches, rejectionOf } from './expectations.js';
import type { FileStorageContractSubject } from './file-storage.subject.js';
import { promisesOf } from './port-promise.js';
import { contentOf, listed, uploadsOf } from './stored-uploads.calls.js';
import { PROMISES } from './stored-uploads.promises.js';
import { currentTestRunner, type TestRunner } from './test-runner.js';
import { anUploadDraft, storeUpload, type UploadDraftBuilder } from './upload-draft.builder.js';

const NOON = Date.parse('2025-03-30T12:00:00.000Z');
const UNKNOWN_ID = '0195e6f0-0000-7000-8000-000000000000';
const at = (hour: number): Date => new Date(NOON + hour * HOUR_MS);

/**
 * Defines the tests that every adapter of the `StoredUploads` port must pass, beside `fileStorageContract`.
 *
 * @param setUp creates a new, empty store for each test.
 * @param runner default: the global functions of the running test runner, or Vitest's own.
 */
export function storedUploadsContract(name: string, setUp: () => Promise<FileStorageContractSubject>, runner: TestRunner = currentTestRunner()): void {
  const { describe, beforeEach, afterEach } = runner;
  const it = promisesOf('StoredUploads', runner);

  describe(`StoredUploads contract: ${name}`, () => {
    let subject: FileStorageContractSubject;
    let storage: FileStorage;
    beforeEach(async () => {
      subject = await setUp();
      ({ storage } = subject);
    });
    afterEach(() => subject.tearDown());

    const store = (draft: UploadDraftBuilder): Promise<Upload> => storeUpload(storage, draft.build());
    /** Stores one upload for each of these hours, received that many hours after `NOON`. */
    const storeAt = async (hours: readonly number[], draft = anUploadDraft()): Promise<Upload[]> => {
      const uploads: Upload[] = [];
      for (const hour of hours) uploads.push(await store(draft.with({ receivedAt: new Date(NOON + hour * HOUR_MS) })));
      return uploads;
    };

    describe('find', () => {
      for (const [what, draft] of [
        ['without a file', anUploadDraft().with({ kind: 'nowcast', additionalData: '"a"\n\\ 電 "received_at":"x"', customerId: 'a/b "c" 電' })],
        ['with a file', anUploadDraft().with({ contentType: 'text/csv; a="b"' }).file('one,', 'two')],
        ['with a long additional_data', anUploadDraft().with({ additionalData: 'é"'.repeat(200_000) })],
        ['with an idempotency key', anUploadDraft().with({ idempotencyKey: 'key-1' })],
        ['from years ago', anUploadDraft().with({ receivedAt: new Date(NOON) })],
      ] as const) {
        it(PROMISES.found, `returns an upload ${what} as it was stored, even after a restart`, async () => {
          await store(anUploadDraft());
          const upload = await store(draft);
          await store(anUploadDraft());

          assertEqual(await uploadsOf(storage).find(upload.uploadId), upload);
          assertEqual(await uploadsOf(await subject.reopen()).find(upload.uploadId), upload);
        });
      }

      it(PROMISES.found, 'finds each of many uploads of several days', async () => {
        const uploads = [...(await storeAt([0, -24, 24, 1, 47, 12.5, 11.99, -12])), ...(await Promise.all(Array.from({ length: 40 }, () => store(anUploadDraft()))))];
        for (const upload of uploads) assertEqual(await uploadsOf(storage).find(upload.uploadId), upload);
      });

      it(PROMISES.longUploads, 'finds an upload that was complete 23 hours after it began', async () => {
        const draft = anUploadDraft().with({ receivedAt: new Date(NOON) }).file('slow').build();
        const late = new Date(NOON + 23 * HOUR_MS);
        const upload = await storeUpload(storage, { ...draft, conclude: async (stored) => ({ ...(await draft.conclude(stored)), receivedAt: late }) });
        await storeAt([12, 12.1, 22, 23.5, 24]);

        assertEqual(await uploadsOf(storage).find(upload.uploadId), upload);
      });

      for (const id of [UNKNOWN_ID, '00000000-0000-0000-0000-000000000000', 'ffffffff-ffff-7fff-bfff-ffffffffffff'] as const) {
        it(PROMISES.unknown, `returns undefined for the unknown id ${id}`, async () => {
          await storeAt([0, 24]);
          assert.equal(await uploadsOf(storage).find(id), undefined);
        });
      }
    });

    describe('list', () => {
      it(PROMISES.order, 'lists nothing in an empty store', async () => {
        assertEqual(await uploadsOf(storage).list({}, 10), { uploads: [], next: null });
      });

      for (const limit of [1, 2, 3, 100] as const) {
        it(PROMISES.order, `lists all uploads, newest first, in pages of ${limit}, even after a restart`, async () => {
          const uploads = [
            ...(await storeAt([0, 25, 1, 49, 1, -24])),
            ...(await storeAt([0.5, 1, 26, -25], anUploadDraft().with({ kind: 'nowcast' }).file('bytes'))),
          ];
          const expected = [...uploads].sort((one, other) => comparePositions(other, one));

          assertEqual(await listed(uploadsOf(storage), {}, limit), expected);
          assertEqual(await listed(uploadsOf(await subject.reopen()), {}, limit), expected);
        });
      }

      it(PROMISES.limit, 'never puts more uploads into a page than its limit', async () => {
        await Promise.all(Array.from({ length: 30 }, () => store(anUploadDraft())));
        const { uploads, next } = await uploadsOf(storage).list({}, 7);
        assert.ok(uploads.length <= 7, `A page has ${uploads.length} uploads, although its limit is 7.`);
        assert.notEqual(next, null, 'More uploads follow, so next must be a position.');
      });

      for (const [what, filter, hours] of [
        ['a kind', { kind: 'nowcast' }, [5, 4, 3]],
        ['a customer', { customerId: 'customer-2' }, [4, 1]],
        ['a customer and a kind', { customerId: 'customer-2', kind: 'historical' }, [1]],
        ['a customer without uploads', { customerId: 'customer' }, []],
        ['the time from which on', { from: at(3) }, [5, 4, 3]],
        ['the time before which', { to: at(3) }, [2, 1, 0]],
        ['both times', { from: at(1), to: at(4) }, [3, 2, 1]],
        ['an empty time', { from: at(2), to: at(2) }, []],
      ] as const) {
        it(PROMISES.filter, `selects by ${what}`, async () => {
          for (const hour of [0, 1, 2, 3, 4, 5]) {
            await storeAt([hour], anUploadDraft().with({ kind: hour < 3 ? 'historical' : 'nowcast', customerId: hour % 3 === 1 ? 'customer-2' : 'customer-1' }));
          }
          assertEqual((await listed(uploadsOf(storage), filter, 2)).map(({ receivedAt }) => (receivedAt.getTime() - NOON) / HOUR_MS), hours);
        });
      }

      it(PROMISES.after, 'continues before all uploads of a time, after a position of that time without an id', async () => {
        const [before, ...rest] = await storeAt([-1, 0, 0, 1]);
        assertLength(rest, 3);
        assertEqual(await listed(uploadsOf(storage), {}, 10, { receivedAt: at(0), uploadId: '' }), [before]);
      });

      it(PROMISES.after, 'skips no upload that is received while the pages are read', async () => {
        const before = await storeAt([0, 1, 2, 3]);
        const first = await uploadsOf(storage).list({}, 2);
        await storeAt([4, 5]);
        const rest = first.next ? await listed(uploadsOf(storage), {}, 2, first.next) : [];
        assertEqual([...first.uploads, ...rest], before.reverse());
      });

      it(PROMISES.after, 'continues after the last upload of a page although it was removed meanwhile', async () => {
        const [first, second, third, last] = await storeAt([0, 1, 2, 3]);
        const page = await uploadsOf(storage).list({}, 2);
        assertEqual(page.uploads, [last, third]);
        for (const upload of [third, first]) await uploadsOf(storage).remove(upload?.uploadId ?? '');
        assertEqual(page.next && (await listed(uploadsOf(storage), {}, 2, page.next)), [second]);
      });

      it(PROMISES.page, 'lists uploads with long texts in several short pages', async () => {
        const uploads = await storeAt([0, 1, 2], anUploadDraft().with({ additionalData: 'x'.repeat(3 * MIB) }));
        assert.ok((await uploadsOf(storage).list({}, 10)).uploads.length < 3, 'A page has three uploads of 3 MiB each.');
        assertEqual((await listed(uploadsOf(storage), {}, 10)).map(({ uploadId }) => uploadId), uploads.map(({ uploadId }) => uploadId).reverse());
      });
    });

    describe('openContent', () => {
      const BYTES = Buffer.from(Array.from({ length: 300_000 }, (_, index) => index % 251));

      for (const [what, bytes, range] of [
        ['a whole file', BYTES, undefined],
        ['an empty file', Buffer.alloc(0), undefined],
        ['the first byte', BYTES, { first: 0, last: 0 }],
        ['the last byte', BYTES, { first: 299_999, last: 299_999 }],
        ['a part', BYTES, { first: 70_001, last: 210_002 }],
      ] as const) {
        it(PROMISES.range, `reads ${what}`, async () => {
          const upload = await store(anUploadDraft().file(bytes));
          const read = await contentOf(uploadsOf(storage), upload, range);
          assertBytes(read, range ? bytes.subarray(range.first, range.last + 1) : bytes, 'The bytes');
        });
      }

      const storeEdited = async (more: number) => {
        const upload = await store(anUploadDraft().file(BYTES));
        return { ...upload, content: upload.content && { ...upload.content, size: BYTES.length + more } };
      };

      for (const [what, range] of [
        ['the whole file', undefined],
        ['a part that goes beyond its end', { first: 70_001, last: 300_000 }],
        ['a part after its end', { first: 300_000, last: 300_000 }],
      ] as const) {
        it(PROMISES.length, `fails to read ${what} if the file is shorter than its line says`, async () => {
          assertMatches(await rejectionOf(contentOf(uploadsOf(storage), await storeEdited(1), range)), { kind: 'storage-failure' });
        });
      }

      it(PROMISES.length, 'yields no more bytes of a file than its line says', async () => {
        const edited = await storeEdited(-1);
        let length = 0;
        const read = async () => {
          for await (const chunk of (await uploadsOf(storage).openContent(edited)) ?? []) length += chunk.length;
        };
        await read().catch(() => undefined);
        assert.ok(length < BYTES.length, `There are ${length} bytes, although the line says ${BYTES.length - 1}.`);
      });

      it(PROMISES.iterator, 'reads many files at once, and lets go of those that a caller abandons', async () => {
        const uploads = await Promise.all(Array.from({ length: 20 }, (_, index) => store(anUploadDraft().file(Buffer.alloc(200_000, index)))));
        const read = uploads.map(async (upload, index) => {
          const bytes = await uploadsOf(storage).openContent(upload);
          for await (const chunk of bytes ?? []) {
            if (index % 2 === 0) return chunk[0];
          }
          return 'read';
        });
        assertEqual(await Promise.all(read), uploads.map((_, index) => (index % 2 === 0 ? index : 'read')));
      });

      it(PROMISES.gone, 'returns undefined for an upload that was removed', async () => {
        const upload = await store(anUploadDraft().file('gone'));
        await uploadsOf(storage).remove(upload.uploadId);
        assert.equal(await uploadsOf(storage).openContent(upload), undefined);
      });
    });

    describe('remove', () => {
      const assertOnly = async (uploads: readonly Upload[]) => {
        const ids = uploads.map(({ uploadId }) => uploadId).sort();
        const paths = uploads.flatMap(({ content }) => content?.path ?? []).sort();
        assertEqual((await subject.lines()).map((line) => (line as { upload_id: string }).upload_id).sort(), ids);
        assertEqual((await subject.contentPaths()).sort(), paths);
        assertEqual((await listed(uploadsOf(storage), {}, 100)).map(({ uploadId }) => uploadId).sort(), ids);
      };

      for (const [what, draft] of [
        ['without a file', anUploadDraft()],
        ['with a small file', anUploadDraft().file('some bytes')],
        ['with a large file', anUploadDraft().file(Buffer.alloc(300_000, 7))],
        ['under an idempotency key', anUploadDraft().with({ idempotencyKey: 'key-1' }).file('some bytes')],
      ] as const) {
        it(PROMISES.durable, `removes an upload ${what}, and no other, for good`, async () => {
          const before = await store(anUploadDraft().file('before'));
          const { uploadId } = await store(draft);
          const after = await store(anUploadDraft().file('after'));

          assert.equal(await uploadsOf(storage).remove(uploadId), true);

          await assertOnly([before, after]);
          assert.equal(await uploadsOf(storage).find(uploadId), undefined);
          assert.equal(await uploadsOf(storage).remove(uploadId), false);
          storage = await subject.reopen();
          await assertOnly([before, after]);
          assertEqual(await contentOf(uploadsOf(storage), before), Buffer.from('before'));
        });
      }

      it(PROMISES.durable, 'removes the only upload of a store', async () => {
        const { uploadId } = await store(anUploadDraft().file('alone'));
        assert.equal(await uploadsOf(storage).remove(uploadId), true);
        await assertOnly([]);
      });

      it(PROMISES.key, 'frees the idempotency key, even after a restart', async () => {
        const keyed = anUploadDraft().with({ idempotencyKey: 'key-1' });
        const first = await store(keyed);
        await uploadsOf(storage).remove(first.uploadId);
        const second = await storage.store(keyed.with({ additionalData: 'another' }).build());
        assert.equal(second.replayed, false, 'The key of a removed upload is still known.');
        await uploadsOf(storage).remove(second.uploadId);
        storage = await subject.reopen();
        assertMatches(await storage.store(keyed.build()), { replayed: false });
      });

      it(PROMISES.atOnce, 'removes uploads while others are stored', async () => {
        const removed = await Promise.all(Array.from({ length: 8 }, () => store(anUploadDraft().file('remove'))));
        const storing = Array.from({ length: 24 }, (_, index) => store(index % 2 === 0 ? anUploadDraft() : anUploadDraft().file('keep')));
        assertEqual(await Promise.all(removed.map(({ uploadId }) => uploadsOf(storage).remove(uploadId))), removed.map(() => true));
        await assertOnly(await Promise.all(storing));
      });

      it(PROMISES.atOnce, 'removes all uploads of a customer while others are stored', async () => {
        for (let count = 0; count < 8; count++) await store(anUploadDraft().with({ customerId: 'customer-2' }).file('remove'));
        let isOver = false;
        const kept: Upload[] = [];
        const storing = [() => anUploadDraft(), () => anUploadDraft().file('keep')].map(async (draft) => {
          for (let count = 0; count < 100 && !isOver; count++) kept.push(await store(draft()));
        });
        assert.equal(await uploadsOf(storage).removeAll({ customerId: 'customer-2' }), 8);
        isOver = true;
        await Promise.all(storing);
        kept.push(await store(anUploadDraft().file('last')));
        await assertOnly(kept);
        storage = await subject.reopen();
        await assertOnly(kept);
      });

      for (const id of [UNKNOWN_ID, 'ffffffff-ffff-7fff-bfff-ffffffffffff'] as const) {
        it(PROMISES.absent, `returns false for the unknown id ${id}`, async () => {
          const upload = await store(anUploadDraft());
          assert.equal(await uploadsOf(storage).remove(id), false);
          await assertOnly([upload]);
        });
      }

      it(PROMISES.all, 'removes all uploads of a customer', async () => {
        const other = [...(await storeAt([0, 24])), await store(anUploadDraft().file('keep')), await store(anUploadDraft().with({ additionalData: '"customer_id":"customer-2",' }))];
        const customer = anUploadDraft().with({ customerId: 'customer-2' });
        await storeAt([0, 1, 24, 48], customer);
        await storeAt([0, 1], customer.with({ kind: 'nowcast' }));
        for (let count = 0; count < 5; count++) await store(customer.file(`remove ${count}`));

        assert.equal(await uploadsOf(storage).removeAll({ customerId: 'customer-2' }), 11);

        await assertOnly(other);
        assert.equal(await uploadsOf(storage).removeAll({ customerId: 'customer-2' }), 0);
        storage = await subject.reopen();
        await assertOnly(other);
      });

      it(PROMISES.all, 'removes the uploads of a customer before a time', async () => {
        const [, , atFour, atFive] = await storeAt([0, 3, 4, 5]);
        assert.equal(await uploadsOf(storage).removeAll({ customerId: 'customer-1', to: at(4) }), 2);
        await assertOnly([atFour, atFive].filter((upload) => upload !== undefined));
      });

      it(PROMISES.expired, 'removes the uploads that were received before a time, whenever they began', async () => {
        const [lastMs, midnight] = [12 - 1 / HOUR_MS, 12];
        await storeAt([-36, -12, lastMs]);
        const kept = await storeAt([midnight, 36]);
        for (const hour of [lastMs, midnight]) {
          const draft = anUploadDraft().with({ receivedAt: at(hour - 23) }).file('slow').build();
          const upload = await storeUpload(storage, { ...draft, conclude: async (stored) => ({ ...(await draft.conclude(stored)), receivedAt: at(hour) }) });
          if (hour === midnight) kept.push(upload);
        }
        assert.equal(await uploadsOf(storage).removeExpired(at(midnight)), 4);
        await assertOnly(kept);
      });

      it(PROMISES.dryRun, 'only counts in a dry run', async () => {
        const uploads = await storeAt([0, 24, 25]);
        const progress: number[] = [];
        assert.equal(await uploadsOf(storage).removeAll({ customerId: 'customer-1' }, { dryRun: true, onProgress: (done) => progress.push(done.uploads) }), 3);
        assert.equal(progress.at(-1), 3);
        await assertOnly(uploads);
      });

      it(PROMISES.signal, 'stops at a signal', async () => {
        await storeAt([0, 24]);
        const reason = new Error('enough');
        assert.equal(await rejectionOf(uploadsOf(storage).removeAll({}, { signal: AbortSignal.abort(reason) })), reason);
      });
    });
  });
}
