import assert from 'node:assert/strict';
import { assertEqual, assertMatches, rejectionOf } from './expectations.js';
import { CountingSource } from './file-sources.js';
import { KEY_PROMISES as PROMISES } from './file-storage.promises.js';
import type { FileStorageContractSubject } from './file-storage.subject.js';
import { promisesOf } from './port-promise.js';
import type { TestRunner } from './test-runner.js';
import { anUploadDraft, seen, storeUpload } from './upload-draft.builder.js';

const KEYED = { idempotencyKey: 'key!"~', customerId: 'customer-1' };

/** The tests of `fileStorageContract` about uploads with an idempotency key. */
export function idempotencyContract(subjectOf: () => FileStorageContractSubject, runner: TestRunner): void {
  const { describe, beforeEach } = runner;
  const it = promisesOf('FileStorage', runner);

  describe('under an idempotency key', () => {
    let subject: FileStorageContractSubject;
    beforeEach(() => {
      subject = subjectOf();
      return Promise.resolve();
    });

    for (const [what, builder] of [
      ['without a file', () => anUploadDraft().with(KEYED)],
      ['with a file', () => anUploadDraft().with(KEYED).file('one,', 'two')],
    ] as const) {
      it(PROMISES.firstReceipt, `answers a repeated request with the first receipt, even after a restart (${what})`, async () => {
        const first = await seen(subject.storage, builder().build());
        assert.equal(first.replayed, false, 'The first request is no repeated one.');
        assertEqual(await seen(subject.storage, builder().build()), { ...first, replayed: true });
        const storage = await subject.reopen();
        assertEqual(await seen(storage, builder().build()), { ...first, replayed: true });

        assertMatches(await subject.lines(), [{ upload_id: first.uploadId, idempotency_key: 'key!"~' }]);
        assert.equal((await subject.contentPaths()).length, first.content ? 1 : 0, 'The files of repeated requests are still there.');
      });
    }

    for (const [what, builder] of [
      ['another filename', anUploadDraft().with({ ...KEYED, filename: 'other.csv' })],
      ['another manufacturer', anUploadDraft().with({ ...KEYED, manufacturer: 'other' })],
      ['additional data', anUploadDraft().with({ ...KEYED, additionalData: '' })],
      ['a file', anUploadDraft().with(KEYED).file()],
    ] as const) {
      it(PROMISES.reused, `rejects a different request under the same key: ${what}`, async () => {
        await seen(subject.storage, anUploadDraft().with(KEYED).build());
        assertMatches(await rejectionOf(seen(subject.storage, builder.build())), { kind: 'idempotency-key-reused' });
        assert.equal((await subject.lines()).length, 1, 'The different request was stored, or the first one is gone.');
        assertEqual(await subject.contentPaths(), []);
      });
    }

    it(PROMISES.reused, 'rejects a different file under the same key, and keeps none of its bytes', async () => {
      const { content } = await storeUpload(subject.storage, anUploadDraft().with(KEYED).file('one').build());
      const other = seen(subject.storage, anUploadDraft().with(KEYED).file('two').build());
      assertMatches(await rejectionOf(other), { kind: 'idempotency-key-reused' });
      assertEqual(await subject.contentPaths(), [content?.path]);
    });

    for (const [what, changes] of [
      ['kind', { kind: 'nowcast' as const }],
      ['customer', { customerId: 'customer-2' }],
      ['key', { idempotencyKey: 'KEY!"~' }],
    ] as const) {
      it(PROMISES.onlyTheFirst, `stores an upload with another ${what} separately`, async () => {
        await seen(subject.storage, anUploadDraft().with(KEYED).build());
        const other = await seen(subject.storage, anUploadDraft().with({ ...KEYED, ...changes }).build());
        assert.equal(other.replayed, false, `An upload with another ${what} has another scope, so it is no repeated one.`);
        assert.equal((await subject.lines()).length, 2, 'Both uploads must have a line.');
      });
    }

    it(PROMISES.onlyTheFirst, 'stores a repeated request again after 24 hours, but not earlier', async () => {
      const now = Date.now();
      for (const [idempotencyKey, hours] of [['old', 24.01], ['new', 23.9]] as const) {
        const ageMs = hours * 3_600_000;
        const draft = anUploadDraft().with({ idempotencyKey, receivedAt: new Date(now - ageMs) }).build();
        await (subject.storeEarlier?.(draft, ageMs) ?? seen(subject.storage, draft));
      }
      const isReplayed = async (idempotencyKey: string) => (await seen(subject.storage, anUploadDraft().with({ idempotencyKey }).build())).replayed;
      assert.equal(await isReplayed('old'), false, 'A key is still known after 24 hours.');
      assert.equal(await isReplayed('old'), true, 'A key that was used again after 24 hours is unknown.');
      assert.equal(await isReplayed('new'), true, 'A key is unknown after 23.9 hours.');
    });

    for (const [when, hours] of [
      ['20 hours before it began', -20],
      ['20 hours after it began', 20],
      ['72 hours after it began', 72],
    ] as const) {
      it(PROMISES.withTheLine, `recognizes a repeated request when, by the clock, the first upload was completed ${when}`, async () => {
        await seen(subject.storage, anUploadDraft().with({ idempotencyKey: 'earlier' }).build());
        const receivedAt = new Date(Date.now() + hours * 3_600_000);
        const first = await seen(subject.storage, anUploadDraft().with({ ...KEYED, receivedAt }).build());
        const again = () => anUploadDraft().with(KEYED).build();
        assertEqual(await seen(subject.storage, again()), { ...first, replayed: true });
        const storage = await subject.reopen();
        assertEqual(await seen(storage, again()), { ...first, replayed: true });
        assert.equal((await subject.lines()).length, 2, 'Each key must have one line.');
      });
    }

    it(PROMISES.onlyTheFirst, 'stores one of fifty simultaneous requests, and answers a later one with its receipt', async () => {
      const drafts = Array.from({ length: 50 }, () => anUploadDraft().with(KEYED).file('the', 'file').build());
      const outcomes = await Promise.allSettled(drafts.map((draft) => seen(subject.storage, draft)));
      const stored = outcomes.flatMap((outcome) => (outcome.status === 'fulfilled' && !outcome.value.replayed ? [outcome.value] : []));
      assert.equal(stored.length, 1, `${stored.length} of 50 simultaneous requests under one key were stored, instead of 1.`);
      for (const outcome of outcomes) {
        if (outcome.status === 'rejected') assertMatches(outcome.reason, { kind: 'request-in-progress', retryAfterSeconds: 1 });
      }
      const late = await seen(subject.storage, anUploadDraft().with(KEYED).file('thefile').build());
      assertEqual(late, { ...stored[0], replayed: true });
      assert.equal((await subject.lines()).length, 1, 'There must be one line.');
      assert.equal((await subject.contentPaths()).length, 1, 'There must be one file.');
    });

    it(PROMISES.freed, 'frees the key when an upload fails', async () => {
      const refused = new Error('refused');
      const failing = { ...anUploadDraft().with(KEYED).file('one').build(), conclude: () => Promise.reject(refused) };
      assert.equal(await rejectionOf(seen(subject.storage, failing)), refused);
      const storage = await subject.reopen();
      assertMatches(await seen(storage, anUploadDraft().with(KEYED).file('two').build()), { replayed: false });
    });

    it(PROMISES.inProgress, 'rejects a request while the first is in progress, without reading any of its bytes', async () => {
      let goOn = (): void => undefined;
      const first = anUploadDraft().with(KEYED).build();
      let begun = (): void => undefined;
      const concluding = new Promise<void>((resolve) => (begun = resolve));
      const storing = seen(subject.storage, {
        ...first,
        conclude: async (stored) => {
          begun();
          await new Promise<void>((resolve) => (goOn = resolve));
          return first.conclude(stored);
        },
      });
      await Promise.race([concluding, storing]);
      const source = new CountingSource([Buffer.from('bytes')]);
      const second = seen(subject.storage, anUploadDraft().with({ ...KEYED, bytes: source }).build());
      assertMatches(await rejectionOf(second), { kind: 'request-in-progress' });
      assert.equal(source.mostAtOnce, 0, 'Bytes of the second request were read.');
      goOn();
      assertMatches(await storing, { uploadId: first.uploadId, replayed: false });
    });
  });
}
