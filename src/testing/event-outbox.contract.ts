import assert from 'node:assert/strict';
import { type EventOutbox, MAX_EVENTS_BYTES, type OutboxEvent } from '../ingestion/application/ports/event-outbox.port.js';
import type { FileStorage } from '../ingestion/application/ports/file-storage.port.js';
import type { StoredUploads } from '../ingestion/application/ports/stored-uploads.port.js';
import type { Upload } from '../ingestion/domain/upload.js';
import { PROMISES } from './event-outbox.promises.js';
import { assertEqual, assertMatches, rejectionOf } from './expectations.js';
import type { FileStorageContractSubject } from './file-storage.subject.js';
import { promisesOf } from './port-promise.js';
import { currentTestRunner, type TestRunner } from './test-runner.js';
import { anUploadDraft, storeUpload, type UploadDraftBuilder } from './upload-draft.builder.js';

/**
 * Defines the tests that every adapter of the `EventOutbox` port must pass. The store must pass `fileStorageContract`
 * too, and `storedUploadsContract` if its `FileStorage` has `storedUploads`.
 *
 * @param setUp creates a new, empty store for each test, whose outbox was never opened.
 * @param runner default: the global functions of the running test runner, or Vitest's own.
 */
export function eventOutboxContract(name: string, setUp: () => Promise<FileStorageContractSubject>, runner: TestRunner = currentTestRunner()): void {
  const { describe, beforeEach, afterEach } = runner;
  const it = promisesOf('EventOutbox', runner);

  describe(`EventOutbox contract: ${name}`, () => {
    let subject: FileStorageContractSubject;
    let storage: FileStorage;
    let used: EventOutbox | undefined;
    beforeEach(async () => {
      subject = await setUp();
      ({ storage } = subject);
      used = undefined;
    });
    afterEach(async () => {
      await used?.close();
      await subject.tearDown();
    });

    const outbox = (): EventOutbox => (used ??= outboxOf(storage));

    const store = (draft: UploadDraftBuilder = anUploadDraft()): Promise<Upload> => storeUpload(storage, draft.build());
    const storeMany = async (count: number): Promise<Upload[]> => {
      const uploads: Upload[] = [];
      for (let index = 0; index < count; index++) uploads.push(await store());
      return uploads;
    };
    const restart = async (): Promise<void> => {
      await outbox().close();
      storage = await subject.reopen();
      used = undefined;
    };
    /** Stores an upload, and confirms all events up to that of the upload. Returns the ids of the others. */
    const takeAll = async (): Promise<string[]> => {
      const { uploadId } = await store();
      const taken = await takeUntil(outbox(), (ids) => ids.includes(uploadId));
      return taken.map(idOf).filter((id) => id !== uploadId);
    };

    describe('stored uploads', () => {
      for (const [what, draft] of [
        ['without a file', anUploadDraft().with({ kind: 'nowcast', additionalData: '"a"\n\\ 電 "received_at":"x"', customerId: 'a/b "c" 電' })],
        ['with a file', anUploadDraft().with({ contentType: 'text/csv; a="b"' }).file('one,', 'two')],
        ['with a long additional_data', anUploadDraft().with({ additionalData: 'é"'.repeat(200_000) })],
        ['with an idempotency key', anUploadDraft().with({ idempotencyKey: 'key-1' })],
      ] as const) {
        it(PROMISES.order, `delivers an upload ${what} as it was stored`, async () => {
          await outbox().open();
          const upload = await store(draft);
          assertEqual(await takeUntil(outbox(), (ids) => ids.length > 0), [{ type: 'stored', upload }]);
        });
      }

      for (const limit of [1, 2, 3, 100]) {
        it(PROMISES.limit, `delivers uploads that were stored one after the other in their order, ${limit} at most at once`, async () => {
          await outbox().open();
          const uploads = await storeMany(7);
          const batches: number[] = [];
          const taken = await takeUntil(outbox(), (ids) => ids.length >= 7, limit, (size) => batches.push(size));
          assertEqual(taken, uploads.map((upload) => ({ type: 'stored', upload })));
          assert.ok(Math.max(...batches) <= limit, `A batch has ${Math.max(...batches)} events, but the limit is ${limit}.`);
          assertEqual(await takeAll(), []);
        });
      }

      it(PROMISES.acknowledged, 'delivers each of fifty simultaneous uploads once', async () => {
        await outbox().open();
        const drafts = Array.from({ length: 50 }, (_, index) => {
          const draft = anUploadDraft().with({ kind: index % 2 ? 'historical' : 'nowcast' });
          return index % 3 ? draft : draft.file(`file ${index}`);
        });
        const uploads = await Promise.all(drafts.map((draft) => store(draft)));
        const taken = await takeUntil(outbox(), (ids) => ids.length >= 50, 7);
        assertEqual(taken.map(idOf).sort(), idsOf(uploads).sort());
        assertEqual(await takeAll(), []);
      });

      it(PROMISES.acknowledged, 'delivers neither a repeated request nor a failed upload', async () => {
        await outbox().open();
        const keyed = anUploadDraft().with({ idempotencyKey: 'key-1' });
        const first = await store(keyed);
        assertMatches(await storage.store(keyed.build()), { replayed: true });
        const failing = { ...anUploadDraft().file('bytes').build(), conclude: () => Promise.reject(new Error('refused')) };
        await rejectionOf(storage.store(failing));
        assertEqual(await takeAll(), [first.uploadId]);
      });

      it(PROMISES.bytes, 'limits the bytes of a batch', async () => {
        await outbox().open();
        const long = anUploadDraft().with({ additionalData: 'x'.repeat(MAX_EVENTS_BYTES * 0.6) });
        for (let count = 0; count < 3; count++) await store(long);
        const batches: number[] = [];
        await takeUntil(outbox(), (ids) => ids.length >= 3, 500, (size) => batches.push(size));
        assertEqual(batches, [1, 1, 1]);
      });
    });

    describe('where it is', () => {
      it(PROMISES.beginning, 'begins with what is stored after it was opened', async () => {
        await storeMany(2);
        await outbox().open();
        const { uploadId } = await store();
        assertEqual(await takeAll(), [uploadId]);
      });

      it(PROMISES.beginning, 'delivers nothing until it is opened', async () => {
        await storeMany(2);
        assert.equal(await outbox().next(10), undefined);
      });

      it(PROMISES.undelivered, 'goes on after a restart, with the uploads that were stored while no process delivered events', async () => {
        await outbox().open();
        const [delivered] = await storeMany(1);
        assertEqual((await takeUntil(outbox(), (ids) => ids.length > 0)).map(idOf), [delivered?.uploadId]);
        const before = await storeMany(2);
        await restart();
        const meanwhile = await storeMany(2);
        await restart();
        await outbox().open();
        assertEqual((await takeAll()).sort(), idsOf([...before, ...meanwhile]).sort());
      });

      it(PROMISES.unconfirmed, 'gives the same events until they are confirmed, even after a restart', async () => {
        await outbox().open();
        const uploads = await storeMany(5);
        const first = await nextOf(outbox(), 3);
        const { events } = first;
        await storeMany(2);
        assertEqual((await nextOf(outbox(), events.length)).events, events);
        await restart();
        await outbox().open();
        const again = await nextOf(outbox(), events.length);
        assertEqual(again.events, events);
        await again.confirm();
        assertEqual((await nextOf(outbox(), 1)).events.map(idOf), [uploads[events.length]?.uploadId]);
      });

      it(PROMISES.again, 'can be opened again at any time', async () => {
        await outbox().open();
        const uploads = await storeMany(2);
        await outbox().open();
        assertEqual(await takeAll(), idsOf(uploads));
      });
    });

    describe('wait', () => {
      it(PROMISES.wait, 'resolves when an upload is stored', async () => {
        await outbox().open();
        assert.equal(await outbox().next(1), undefined);
        const waiting = outbox().wait(new AbortController().signal);
        await store();
        await waiting;
      });

      it(PROMISES.aborted, 'resolves when its signal aborts', async () => {
        await outbox().open();
        assert.equal(await outbox().next(1), undefined);
        const end = new AbortController();
        const waiting = outbox().wait(end.signal);
        end.abort();
        await waiting;
      });

      it(PROMISES.wait, 'misses no upload that was stored before the call', async () => {
        await outbox().open();
        await outbox().next(1);
        await store();
        await outbox().wait(new AbortController().signal);
      });
    });

    describe('removed uploads', () => {
      it(PROMISES.removal, 'delivers the removal of an upload that was delivered, even after a restart', async () => {
        await outbox().open();
        const upload = await store(anUploadDraft().with({ kind: 'nowcast', customerId: 'a/b "c" 電' }).file('bytes'));
        await takeUntil(outbox(), (ids) => ids.length > 0);
        const before = Date.now();
        await uploadsOf(storage).remove(upload.uploadId);
        const after = Date.now();
        await restart();
        await outbox().open();
        const [event] = await takeUntil(outbox(), (ids) => ids.length > 0);
        assertMatches(event, { type: 'removed', uploadId: upload.uploadId, kind: 'nowcast', customerId: 'a/b "c" 電' });
        const removedAt = event?.type === 'removed' ? event.removedAt.getTime() : NaN;
        assert.ok(removedAt >= before && removedAt <= after, 'removedAt is not the time of the removal.');
        if (event?.type === 'removed' && event.receivedAt) assertEqual(event.receivedAt, upload.receivedAt);
        assertEqual(await takeAll(), []);
      });

      it(PROMISES.removedOnly, 'delivers only the removal of an upload that was removed before it was delivered', async () => {
        await outbox().open();
        const [first, gone, last] = await storeMany(3);
        await uploadsOf(storage).remove(gone?.uploadId ?? '');
        const taken = await takeAll();
        assertEqual(taken.sort(), [first?.uploadId, last?.uploadId, `${gone?.uploadId}-removed`].sort());
      });

      it(PROMISES.removedOnly, 'delivers every upload once when others of their segments are removed', async () => {
        await outbox().open();
        const uploads = await Promise.all(Array.from({ length: 10 }, () => store()));
        const ids = idsOf(uploads);
        const taken = (await takeUntil(outbox(), (seen) => seen.length >= 4, 2)).map(idOf);
        const batch = await nextOf(outbox(), 3);
        taken.push(...batch.events.map(idOf));
        // Remove one upload whose event was confirmed, one in the unconfirmed batch, and one in no batch yet.
        const later = ids.filter((id) => !taken.includes(id));
        const removed = [taken[1], batch.events.map(idOf)[0], later[1]].map((id) => id ?? '');
        for (const id of removed) await uploadsOf(storage).remove(id);
        await batch.confirm();
        const expected = [...later.filter((id) => !removed.includes(id)), ...removed.map((id) => `${id}-removed`)];
        assertEqual((await takeAll()).sort(), expected.sort());
      });

      it(PROMISES.removedMeanwhile, 'leaves an upload out of a repeated batch once it was removed', async () => {
        await outbox().open();
        const [first, second] = await storeMany(2);
        const batch = await nextOf(outbox(), 1);
        assertEqual(batch.events.map(idOf), [first?.uploadId]);
        await uploadsOf(storage).remove(first?.uploadId ?? '');
        assertEqual((await takeAll()).sort(), [second?.uploadId, `${first?.uploadId}-removed`].sort());
      });

      it(PROMISES.removal, 'delivers the removal of each upload of a customer', async () => {
        await outbox().open();
        const other = await store(anUploadDraft().with({ customerId: 'customer-2' }));
        const uploads = await storeMany(7);
        uploads.push(await store(anUploadDraft().with({ kind: 'nowcast' }).file('bytes')));
        await uploadsOf(storage).removeAll({ customerId: 'customer-1' });
        const taken = await takeUntil(outbox(), (ids) => ids.length >= 9, 3);
        assertEqual(taken.map(idOf).sort(), [other.uploadId, ...idsOf(uploads).map((id) => `${id}-removed`)].sort());
        assertEqual(await takeAll(), []);
      });

      it(PROMISES.wait, 'ends a wait when an upload is removed', async () => {
        await outbox().open();
        const { uploadId } = await store();
        await takeUntil(outbox(), (ids) => ids.length > 0);
        assert.equal(await outbox().next(1), undefined);
        const waiting = outbox().wait(new AbortController().signal);
        await uploadsOf(storage).remove(uploadId);
        await waiting;
      });
    });
  });
}

const idOf = (event: OutboxEvent): string => (event.type === 'stored' ? event.upload.uploadId : `${event.uploadId}-removed`);

const idsOf = (uploads: readonly Upload[]): string[] => uploads.map(({ uploadId }) => uploadId);

function outboxOf({ eventOutbox: outbox }: FileStorage): EventOutbox {
  if (!outbox) throw new Error('FileStorage.eventOutbox is undefined: return the EventOutbox of the store.');
  return outbox;
}

function uploadsOf({ storedUploads: uploads }: FileStorage): StoredUploads {
  if (!uploads) throw new Error('FileStorage.storedUploads is undefined: an outbox also has the events of removals.');
  return uploads;
}

async function nextOf(outbox: EventOutbox, limit: number) {
  for (;;) {
    const batch = await outbox.next(limit);
    if (batch) return batch;
    await outbox.wait(new AbortController().signal);
  }
}

async function takeUntil(outbox: EventOutbox, isEnough: (ids: string[]) => boolean, limit = 500, onBatch: (size: number) => void = () => undefined): Promise<OutboxEvent[]> {
  const taken: OutboxEvent[] = [];
  while (!isEnough(taken.map(idOf))) {
    const batch = await nextOf(outbox, limit);
    taken.push(...batch.events);
    onBatch(batch.events.length);
    await batch.confirm();
  }
  return taken;
}
