import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { FileStorage } from '../ingestion/application/ports/file-storage.port.js';
import type { StoredUploads, UploadFilter, UploadPosition } from '../ingestion/application/ports/stored-uploads.port.js';
import { comparePositions } from '../ingestion/domain/upload-filter.js';
import type { Upload } from '../ingestion/domain/upload.js';
import type { FileStorageContractSubject } from './file-storage.contract.js';
import { anUploadDraft, storeUpload, type UploadDraftBuilder } from './upload-draft.builder.js';

const NOON = Date.parse('2025-03-30T12:00:00.000Z');
const HOUR_MS = 60 * 60 * 1000;
const UNKNOWN_ID = '0195e6f0-0000-7000-8000-000000000000';

/**
 * The tests that every `StoredUploads` must pass, for stores whose `FileStorage.storedUploads` offers it. The store must pass
 * `fileStorageContract` too.
 *
 * @param setUp creates a new subject for each test.
 */
export function storedUploadsContract(name: string, setUp: () => Promise<FileStorageContractSubject>): void {
  describe(`StoredUploads contract: ${name}`, () => {
    let subject: FileStorageContractSubject;
    let storage: FileStorage;
    beforeEach(async () => {
      subject = await setUp();
      ({ storage } = subject);
    });
    afterEach(() => subject.tearDown());

    const store = (draft: UploadDraftBuilder): Promise<Upload> => storeUpload(storage, draft.build());
    /** Stores uploads one after the other; the hours after noon are the times at which they were complete. */
    const storeAt = async (hours: readonly number[], draft = anUploadDraft()): Promise<Upload[]> => {
      const uploads: Upload[] = [];
      for (const hour of hours) uploads.push(await store(draft.with({ receivedAt: new Date(NOON + hour * HOUR_MS) })));
      return uploads;
    };

    describe('find', () => {
      it.each<[string, UploadDraftBuilder]>([
        ['without a file', anUploadDraft().with({ kind: 'nowcast', additionalData: '"a"\n\\ 電 "received_at":"x"', customerId: 'a/b "c" 電' })],
        ['with a file', anUploadDraft().with({ contentType: 'text/csv; a="b"' }).file('one,', 'two')],
        ['with a long additional_data', anUploadDraft().with({ additionalData: 'é"'.repeat(200_000) })],
        ['with an idempotency key', anUploadDraft().with({ idempotencyKey: 'key-1' })],
        ['from years ago', anUploadDraft().with({ receivedAt: new Date(NOON) })],
      ])('returns an upload %s as it was stored, also after a restart', async (_, draft) => {
        await store(anUploadDraft());
        const upload = await store(draft);
        await store(anUploadDraft());

        expect(await uploadsOf(storage).find(upload.uploadId)).toEqual(upload);
        expect(await uploadsOf(await subject.reopen()).find(upload.uploadId)).toEqual(upload);
      });

      it('finds each of many uploads of several days', async () => {
        const uploads = [...(await storeAt([0, -24, 24, 1, 47, 12.5, 11.99, -12])), ...(await Promise.all(Array.from({ length: 40 }, () => store(anUploadDraft()))))];
        for (const upload of uploads) expect(await uploadsOf(storage).find(upload.uploadId)).toEqual(upload);
      });

      it('finds an upload that was complete 23 hours after it began', async () => {
        const draft = anUploadDraft().with({ receivedAt: new Date(NOON) }).file('slow').build();
        const late = new Date(NOON + 23 * HOUR_MS);
        const upload = await storeUpload(storage, { ...draft, conclude: async (stored) => ({ ...(await draft.conclude(stored)), receivedAt: late }) });
        await storeAt([12, 12.1, 22, 23.5, 24]);

        expect(await uploadsOf(storage).find(upload.uploadId)).toEqual(upload);
      });

      it.each([UNKNOWN_ID, '00000000-0000-0000-0000-000000000000', 'ffffffff-ffff-7fff-bfff-ffffffffffff'])('returns undefined for the unknown id %s', async (id) => {
        await storeAt([0, 24]);
        expect(await uploadsOf(storage).find(id)).toBeUndefined();
      });
    });

    describe('list', () => {
      it('lists nothing in an empty store', async () => {
        expect(await uploadsOf(storage).list({}, 10)).toEqual({ uploads: [], next: null });
      });

      it.each([1, 2, 3, 100])('lists all uploads, newest first, in pages of %s, also after a restart', async (limit) => {
        const uploads = [
          ...(await storeAt([0, 25, 1, 49, 1, -24])),
          ...(await storeAt([0.5, 1, 26, -25], anUploadDraft().with({ kind: 'nowcast' }).file('bytes'))),
        ];
        const expected = [...uploads].sort((one, other) => comparePositions(other, one));

        expect(await listed(uploadsOf(storage), {}, limit)).toEqual(expected);
        expect(await listed(uploadsOf(await subject.reopen()), {}, limit)).toEqual(expected);
      });

      it('never puts more uploads into a page than its limit', async () => {
        await Promise.all(Array.from({ length: 30 }, () => store(anUploadDraft())));
        const { uploads, next } = await uploadsOf(storage).list({}, 7);
        expect(uploads.length).toBeLessThanOrEqual(7);
        expect(next).not.toBeNull();
      });

      it.each<[string, UploadFilter, number[]]>([
        ['a kind', { kind: 'nowcast' }, [5, 4, 3]],
        ['a customer', { customerId: 'customer-2' }, [4, 1]],
        ['a customer and a kind', { customerId: 'customer-2', kind: 'historical' }, [1]],
        ['a customer without uploads', { customerId: 'customer' }, []],
        ['the time from which on', { from: at(3) }, [5, 4, 3]],
        ['the time before which', { to: at(3) }, [2, 1, 0]],
        ['both times', { from: at(1), to: at(4) }, [3, 2, 1]],
        ['an empty time', { from: at(2), to: at(2) }, []],
      ])('selects by %s', async (_, filter, hours) => {
        for (const hour of [0, 1, 2, 3, 4, 5]) {
          await storeAt([hour], anUploadDraft().with({ kind: hour < 3 ? 'historical' : 'nowcast', customerId: hour % 3 === 1 ? 'customer-2' : 'customer-1' }));
        }
        expect((await listed(uploadsOf(storage), filter, 2)).map(({ receivedAt }) => (receivedAt.getTime() - NOON) / HOUR_MS)).toEqual(hours);
      });

      it('continues before all uploads of a time, after a position of that time without an id', async () => {
        const [before, ...rest] = await storeAt([-1, 0, 0, 1]);
        expect(rest).toHaveLength(3);
        expect(await listed(uploadsOf(storage), {}, 10, { receivedAt: at(0), uploadId: '' })).toEqual([before]);
      });

      it('skips no upload that is received while the pages are read', async () => {
        const before = await storeAt([0, 1, 2, 3]);
        const first = await uploadsOf(storage).list({}, 2);
        await storeAt([4, 5]);
        const rest = first.next ? await listed(uploadsOf(storage), {}, 2, first.next) : [];
        expect([...first.uploads, ...rest]).toEqual(before.reverse());
      });

      it('lists uploads with long texts in several short pages', async () => {
        const uploads = await storeAt([0, 1, 2], anUploadDraft().with({ additionalData: 'x'.repeat(3 * 1024 * 1024) }));
        expect((await uploadsOf(storage).list({}, 10)).uploads.length).toBeLessThan(3);
        expect((await listed(uploadsOf(storage), {}, 10)).map(({ uploadId }) => uploadId)).toEqual(uploads.map(({ uploadId }) => uploadId).reverse());
      });
    });

    describe('openContent', () => {
      const BYTES = Buffer.from(Array.from({ length: 300_000 }, (_, index) => index % 251));

      it.each<[string, Buffer, { first: number; last: number } | undefined]>([
        ['a whole file', BYTES, undefined],
        ['an empty file', Buffer.alloc(0), undefined],
        ['the first byte', BYTES, { first: 0, last: 0 }],
        ['the last byte', BYTES, { first: 299_999, last: 299_999 }],
        ['a part', BYTES, { first: 70_001, last: 210_002 }],
      ])('reads %s', async (_, bytes, range) => {
        const upload = await store(anUploadDraft().file(bytes));
        const read = await contentOf(uploadsOf(storage), upload, range);
        expect(read?.equals(range ? bytes.subarray(range.first, range.last + 1) : bytes)).toBe(true);
      });

      it('reads many files at once, and lets go of those that a caller abandons', async () => {
        const uploads = await Promise.all(Array.from({ length: 20 }, (_, index) => store(anUploadDraft().file(Buffer.alloc(200_000, index)))));
        const read = uploads.map(async (upload, index) => {
          const bytes = await uploadsOf(storage).openContent(upload);
          for await (const chunk of bytes ?? []) {
            if (index % 2 === 0) return chunk[0];
          }
          return 'read';
        });
        expect(await Promise.all(read)).toEqual(uploads.map((_, index) => (index % 2 === 0 ? index : 'read')));
      });

      it('returns undefined for an upload that was removed', async () => {
        const upload = await store(anUploadDraft().file('gone'));
        await uploadsOf(storage).remove(upload.uploadId);
        expect(await uploadsOf(storage).openContent(upload)).toBeUndefined();
      });
    });

    describe('remove', () => {
      const expectOnly = async (uploads: readonly Upload[]) => {
        const ids = uploads.map(({ uploadId }) => uploadId).sort();
        const paths = uploads.flatMap(({ content }) => content?.path ?? []).sort();
        expect((await subject.lines()).map((line) => (line as { upload_id: string }).upload_id).sort()).toEqual(ids);
        expect((await subject.contentPaths()).sort()).toEqual(paths);
        expect((await listed(uploadsOf(storage), {}, 100)).map(({ uploadId }) => uploadId).sort()).toEqual(ids);
      };

      it.each<[string, UploadDraftBuilder]>([
        ['without a file', anUploadDraft()],
        ['with a small file', anUploadDraft().file('some bytes')],
        ['with a large file', anUploadDraft().file(Buffer.alloc(300_000, 7))],
        ['under an idempotency key', anUploadDraft().with({ idempotencyKey: 'key-1' }).file('some bytes')],
      ])('removes an upload %s, and no other, for good', async (_, draft) => {
        const before = await store(anUploadDraft().file('before'));
        const { uploadId } = await store(draft);
        const after = await store(anUploadDraft().file('after'));

        expect(await uploadsOf(storage).remove(uploadId)).toBe(true);

        await expectOnly([before, after]);
        expect(await uploadsOf(storage).find(uploadId)).toBeUndefined();
        expect(await uploadsOf(storage).remove(uploadId)).toBe(false);
        storage = await subject.reopen();
        await expectOnly([before, after]);
        expect(await contentOf(uploadsOf(storage), before)).toEqual(Buffer.from('before'));
      });

      it('removes the only upload of a store', async () => {
        const { uploadId } = await store(anUploadDraft().file('alone'));
        expect(await uploadsOf(storage).remove(uploadId)).toBe(true);
        await expectOnly([]);
      });

      it('frees the idempotency key, also after a restart', async () => {
        const keyed = anUploadDraft().with({ idempotencyKey: 'key-1' });
        const first = await store(keyed);
        await uploadsOf(storage).remove(first.uploadId);
        const second = await storage.store(keyed.with({ additionalData: 'another' }).build());
        expect(second.replayed).toBe(false);
        await uploadsOf(storage).remove(second.uploadId);
        storage = await subject.reopen();
        expect(await storage.store(keyed.build())).toMatchObject({ replayed: false });
      });

      it('removes uploads while others are stored', async () => {
        const removed = await Promise.all(Array.from({ length: 8 }, () => store(anUploadDraft().file('remove'))));
        const storing = Array.from({ length: 24 }, (_, index) => store(index % 2 === 0 ? anUploadDraft() : anUploadDraft().file('keep')));
        expect(await Promise.all(removed.map(({ uploadId }) => uploadsOf(storage).remove(uploadId)))).toEqual(removed.map(() => true));
        await expectOnly(await Promise.all(storing));
      });

      it.each([UNKNOWN_ID, 'ffffffff-ffff-7fff-bfff-ffffffffffff'])('returns false for the unknown id %s', async (id) => {
        const upload = await store(anUploadDraft());
        expect(await uploadsOf(storage).remove(id)).toBe(false);
        await expectOnly([upload]);
      });

      it('removes all uploads of a customer', async () => {
        const other = [...(await storeAt([0, 24])), await store(anUploadDraft().file('keep')), await store(anUploadDraft().with({ additionalData: '"customer_id":"customer-2",' }))];
        const customer = anUploadDraft().with({ customerId: 'customer-2' });
        await storeAt([0, 1, 24, 48], customer);
        await storeAt([0, 1], customer.with({ kind: 'nowcast' }));
        for (let count = 0; count < 5; count++) await store(customer.file(`remove ${count}`));

        expect(await uploadsOf(storage).removeAll({ customerId: 'customer-2' })).toBe(11);

        await expectOnly(other);
        expect(await uploadsOf(storage).removeAll({ customerId: 'customer-2' })).toBe(0);
        storage = await subject.reopen();
        await expectOnly(other);
      });

      it('removes the uploads of a customer before a time', async () => {
        const [, , atFour, atFive] = await storeAt([0, 3, 4, 5]);
        expect(await uploadsOf(storage).removeAll({ customerId: 'customer-1', to: at(4) })).toBe(2);
        await expectOnly([atFour, atFive].filter((upload) => upload !== undefined));
      });

      it('only counts in a dry run', async () => {
        const uploads = await storeAt([0, 24, 25]);
        const progress: number[] = [];
        expect(await uploadsOf(storage).removeAll({ customerId: 'customer-1' }, { dryRun: true, onProgress: (done) => progress.push(done.uploads) })).toBe(3);
        expect(progress.at(-1)).toBe(3);
        await expectOnly(uploads);
      });

      it('stops at a signal', async () => {
        await storeAt([0, 24]);
        const reason = new Error('enough');
        await expect(uploadsOf(storage).removeAll({}, { signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
      });
    });
  });
}

const at = (hour: number): Date => new Date(NOON + hour * HOUR_MS);

function uploadsOf({ storedUploads: uploads }: FileStorage): StoredUploads {
  if (!uploads) throw new Error('FileStorage.storedUploads is undefined: return the StoredUploads of the store.');
  return uploads;
}

/** All uploads of a list, read page by page. */
async function listed(uploads: StoredUploads, filter: UploadFilter, limit: number, after?: UploadPosition): Promise<Upload[]> {
  const all: Upload[] = [];
  for (let next: UploadPosition | null | undefined = after; next !== null; ) {
    const page = await uploads.list(filter, limit, next);
    all.push(...page.uploads);
    ({ next } = page);
  }
  return all;
}

async function contentOf(uploads: StoredUploads, upload: Upload, range?: { first: number; last: number }): Promise<Buffer | undefined> {
  const bytes = await uploads.openContent(upload, range);
  if (!bytes) return undefined;
  const chunks: Buffer[] = [];
  for await (const chunk of bytes) chunks.push(Buffer.from(chunk));
  return Buffer.concat(chunks);
}
