import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type EventOutbox, MAX_EVENTS_BYTES, type OutboxEvent } from '../ingestion/application/ports/event-outbox.port.js';
import type { FileStorage } from '../ingestion/application/ports/file-storage.port.js';
import type { StoredUploads } from '../ingestion/application/ports/stored-uploads.port.js';
import type { Upload } from '../ingestion/domain/upload.js';
import type { FileStorageContractSubject } from './file-storage.contract.js';
import { anUploadDraft, storeUpload, type UploadDraftBuilder } from './upload-draft.builder.js';

/**
 * The tests that every `EventOutbox` must pass, for stores whose `FileStorage.eventOutbox` offers it. The store must pass
 * `fileStorageContract` too, and `storedUploadsContract` if it offers its uploads.
 *
 * @param setUp creates a new subject for each test. Its outbox was never opened.
 */
export function eventOutboxContract(name: string, setUp: () => Promise<FileStorageContractSubject>): void {
  describe(`EventOutbox contract: ${name}`, () => {
    let subject: FileStorageContractSubject;
    let storage: FileStorage;
    let outbox: EventOutbox;
    beforeEach(async () => {
      subject = await setUp();
      ({ storage } = subject);
      outbox = outboxOf(storage);
    });
    afterEach(async () => {
      await outbox.close();
      await subject.tearDown();
    });

    const store = (draft: UploadDraftBuilder = anUploadDraft()): Promise<Upload> => storeUpload(storage, draft.build());
    const storeMany = async (count: number): Promise<Upload[]> => {
      const uploads: Upload[] = [];
      for (let index = 0; index < count; index++) uploads.push(await store());
      return uploads;
    };
    /** Restarts the store. Its outbox isn't opened. */
    const restart = async (): Promise<void> => {
      await outbox.close();
      storage = await subject.reopen();
      outbox = outboxOf(storage);
    };
    /** Everything that is told from now on, up to the event of an upload that is stored now. */
    const toldNow = async (): Promise<string[]> => {
      const { uploadId } = await store();
      const told = await toldUntil(outbox, (ids) => ids.includes(uploadId));
      return told.map(idOf).filter((id) => id !== uploadId);
    };

    describe('stored uploads', () => {
      it.each<[string, UploadDraftBuilder]>([
        ['without a file', anUploadDraft().with({ kind: 'nowcast', additionalData: '"a"\n\\ 電 "received_at":"x"', customerId: 'a/b "c" 電' })],
        ['with a file', anUploadDraft().with({ contentType: 'text/csv; a="b"' }).file('one,', 'two')],
        ['with a long additional_data', anUploadDraft().with({ additionalData: 'é"'.repeat(200_000) })],
        ['with an idempotency key', anUploadDraft().with({ idempotencyKey: 'key-1' })],
      ])('tells an upload %s as it was stored', async (_, draft) => {
        await outbox.open();
        const upload = await store(draft);
        expect(await toldUntil(outbox, (ids) => ids.length > 0)).toEqual([{ type: 'stored', upload }]);
      });

      it.each([1, 2, 3, 100])('tells uploads that were stored one after the other in their order, %s at most at once', async (limit) => {
        await outbox.open();
        const uploads = await storeMany(7);
        const batches: number[] = [];
        const told = await toldUntil(outbox, (ids) => ids.length >= 7, limit, (size) => batches.push(size));
        expect(told).toEqual(uploads.map((upload) => ({ type: 'stored', upload })));
        expect(Math.max(...batches)).toBeLessThanOrEqual(limit);
        expect(await toldNow()).toEqual([]);
      });

      it('tells each of fifty simultaneous uploads once', async () => {
        await outbox.open();
        const drafts = Array.from({ length: 50 }, (_, index) => {
          const draft = anUploadDraft().with({ kind: index % 2 ? 'historical' : 'nowcast' });
          return index % 3 ? draft : draft.file(`file ${index}`);
        });
        const uploads = await Promise.all(drafts.map((draft) => store(draft)));
        const told = await toldUntil(outbox, (ids) => ids.length >= 50, 7);
        expect(told.map(idOf).sort()).toEqual(idsOf(uploads).sort());
        expect(await toldNow()).toEqual([]);
      });

      it('tells neither a repeated request nor a failed upload', async () => {
        await outbox.open();
        const keyed = anUploadDraft().with({ idempotencyKey: 'key-1' });
        const first = await store(keyed);
        expect(await storage.store(keyed.build())).toMatchObject({ replayed: true });
        const failing = { ...anUploadDraft().file('bytes').build(), conclude: () => Promise.reject(new Error('refused')) };
        await expect(storage.store(failing)).rejects.toThrow('refused');
        expect(await toldNow()).toEqual([first.uploadId]);
      });

      it('limits the bytes of a batch', async () => {
        await outbox.open();
        const long = anUploadDraft().with({ additionalData: 'x'.repeat(MAX_EVENTS_BYTES * 0.6) });
        for (let count = 0; count < 3; count++) await store(long);
        const batches: number[] = [];
        await toldUntil(outbox, (ids) => ids.length >= 3, 500, (size) => batches.push(size));
        expect(batches).toEqual([1, 1, 1]);
      });
    });

    describe('where it is', () => {
      it('begins with what is stored after it was opened', async () => {
        await storeMany(2);
        await outbox.open();
        const { uploadId } = await store();
        expect(await toldNow()).toEqual([uploadId]);
      });

      it('tells nothing before it was opened', async () => {
        await storeMany(2);
        expect(await outbox.next(10)).toBeUndefined();
      });

      it('goes on after a restart, with the uploads that were stored while nobody told', async () => {
        await outbox.open();
        const [told] = await storeMany(1);
        expect((await toldUntil(outbox, (ids) => ids.length > 0)).map(idOf)).toEqual([told?.uploadId]);
        const before = await storeMany(2);
        await restart();
        const meanwhile = await storeMany(2);
        await restart();
        await outbox.open();
        expect((await toldNow()).sort()).toEqual(idsOf([...before, ...meanwhile]).sort());
      });

      it('gives the same events until they are confirmed, also after a restart', async () => {
        await outbox.open();
        const uploads = await storeMany(5);
        const first = await nextOf(outbox, 3);
        const { events } = first;
        await storeMany(2);
        expect((await nextOf(outbox, events.length)).events).toEqual(events);
        await restart();
        await outbox.open();
        const again = await nextOf(outbox, events.length);
        expect(again.events).toEqual(events);
        await again.confirm();
        expect((await nextOf(outbox, 1)).events.map(idOf)).toEqual([uploads[events.length]?.uploadId]);
      });

      it('can be opened again at any time', async () => {
        await outbox.open();
        const uploads = await storeMany(2);
        await outbox.open();
        expect(await toldNow()).toEqual(idsOf(uploads));
      });
    });

    describe('wait', () => {
      const cases: [string, (end: AbortController) => Promise<unknown>][] = [
        ['an upload is stored', () => store()],
        ['its signal aborts', (end) => {
          end.abort();
          return Promise.resolve();
        }],
      ];
      it.each(cases)('resolves when %s', async (_, happen) => {
        await outbox.open();
        expect(await outbox.next(1)).toBeUndefined();
        const end = new AbortController();
        const waiting = outbox.wait(end.signal);
        await happen(end);
        await waiting;
      });

      it('misses no upload that was stored before the call', async () => {
        await outbox.open();
        await outbox.next(1);
        await store();
        await outbox.wait(new AbortController().signal);
      });
    });

    describe('removed uploads', () => {
      beforeEach(() => outbox.open());

      it('tells the removal of an upload that was told, also after a restart', async () => {
        const upload = await store(anUploadDraft().with({ kind: 'nowcast', customerId: 'a/b "c" 電' }).file('bytes'));
        await toldUntil(outbox, (ids) => ids.length > 0);
        const before = Date.now();
        await uploadsOf(storage).remove(upload.uploadId);
        const after = Date.now();
        await restart();
        await outbox.open();
        const [event] = await toldUntil(outbox, (ids) => ids.length > 0);
        expect(event).toMatchObject({ type: 'removed', uploadId: upload.uploadId, kind: 'nowcast', customerId: 'a/b "c" 電' });
        const removedAt = event?.type === 'removed' ? event.removedAt.getTime() : NaN;
        expect(removedAt).toBeGreaterThanOrEqual(before);
        expect(removedAt).toBeLessThanOrEqual(after);
        expect(await toldNow()).toEqual([]);
      });

      it('tells only the removal of an upload that was removed before it was told', async () => {
        const [first, gone, last] = await storeMany(3);
        await uploadsOf(storage).remove(gone?.uploadId ?? '');
        const told = await toldNow();
        expect(told.sort()).toEqual([first?.uploadId, last?.uploadId, `${gone?.uploadId}-removed`].sort());
      });

      it('tells every upload once when others of their segments are removed', async () => {
        const uploads = await Promise.all(Array.from({ length: 10 }, () => store()));
        const ids = idsOf(uploads);
        const told = (await toldUntil(outbox, (seen) => seen.length >= 4, 2)).map(idOf);
        const batch = await nextOf(outbox, 3);
        told.push(...batch.events.map(idOf));
        // One that was told, one of the batch that is being told, and one that comes later.
        const later = ids.filter((id) => !told.includes(id));
        const removed = [told[1], batch.events.map(idOf)[0], later[1]].map((id) => id ?? '');
        for (const id of removed) await uploadsOf(storage).remove(id);
        await batch.confirm();
        const expected = [...later.filter((id) => !removed.includes(id)), ...removed.map((id) => `${id}-removed`)];
        expect((await toldNow()).sort()).toEqual(expected.sort());
      });

      it('leaves an upload out of a repeated batch once it was removed', async () => {
        const [first, second] = await storeMany(2);
        const batch = await nextOf(outbox, 1);
        expect(batch.events.map(idOf)).toEqual([first?.uploadId]);
        await uploadsOf(storage).remove(first?.uploadId ?? '');
        expect((await toldNow()).sort()).toEqual([second?.uploadId, `${first?.uploadId}-removed`].sort());
      });

      it('tells the removal of each upload of a customer', async () => {
        const other = await store(anUploadDraft().with({ customerId: 'customer-2' }));
        const uploads = await storeMany(7);
        uploads.push(await store(anUploadDraft().with({ kind: 'nowcast' }).file('bytes')));
        await uploadsOf(storage).removeAll({ customerId: 'customer-1' });
        const told = await toldUntil(outbox, (ids) => ids.length >= 9, 3);
        expect(told.map(idOf).sort()).toEqual([other.uploadId, ...idsOf(uploads).map((id) => `${id}-removed`)].sort());
        expect(await toldNow()).toEqual([]);
      });

      it('ends a wait when an upload is removed', async () => {
        const { uploadId } = await store();
        await toldUntil(outbox, (ids) => ids.length > 0);
        expect(await outbox.next(1)).toBeUndefined();
        const waiting = outbox.wait(new AbortController().signal);
        await uploadsOf(storage).remove(uploadId);
        await waiting;
      });
    });
  });
}

/** The id of an event, as receivers see it. */
const idOf = (event: OutboxEvent): string => (event.type === 'stored' ? event.upload.uploadId : `${event.uploadId}-removed`);

const idsOf = (uploads: readonly Upload[]): string[] => uploads.map(({ uploadId }) => uploadId);

function outboxOf({ eventOutbox: outbox }: FileStorage): EventOutbox {
  if (!outbox) throw new Error('FileStorage.eventOutbox is undefined: return the EventOutbox of the store.');
  return outbox;
}

function uploadsOf({ storedUploads: uploads }: FileStorage): StoredUploads {
  if (!uploads) throw new Error('FileStorage.storedUploads is undefined: an outbox tells of removals.');
  return uploads;
}

/** The next batch, as soon as there is one. */
async function nextOf(outbox: EventOutbox, limit: number) {
  for (;;) {
    const batch = await outbox.next(limit);
    if (batch) return batch;
    await outbox.wait(new AbortController().signal);
  }
}

/** Tells and confirms batches until the ids of everything that was told are enough. */
async function toldUntil(outbox: EventOutbox, isEnough: (ids: string[]) => boolean, limit = 500, onBatch: (size: number) => void = () => undefined): Promise<OutboxEvent[]> {
  const told: OutboxEvent[] = [];
  while (!isEnough(told.map(idOf))) {
    const batch = await nextOf(outbox, limit);
    told.push(...batch.events);
    onBatch(batch.events.length);
    await batch.confirm();
  }
  return told;
}
