import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { Readable } from 'node:stream';
import { KIB, MIB } from '../common/sizes.js';
import type { StoredContent, UploadDraft } from '../ingestion/application/ports/file-storage.port.js';
import { UPLOAD_KINDS } from '../ingestion/domain/upload.js';
import { assertBytes, assertEqual, assertMatches, rejectionOf } from './expectations.js';
import { CountingSource, longFile } from './file-sources.js';
import { PROMISES } from './file-storage.promises.js';
import type { FileStorageContractSubject } from './file-storage.subject.js';
import { idempotencyContract } from './idempotency.contract.js';
import { promisesOf } from './port-promise.js';
import { currentTestRunner, type TestRunner } from './test-runner.js';
import { anUploadDraft, seen, storeUpload } from './upload-draft.builder.js';

export type { FileStorageContractSubject };

/**
 * Defines the tests that every adapter of the `FileStorage` port must pass.
 *
 * @param setUp creates a new, empty store for each test.
 * @param runner default: the global functions of the running test runner, or Vitest's own.
 */
export function fileStorageContract(name: string, setUp: () => Promise<FileStorageContractSubject>, runner: TestRunner = currentTestRunner()): void {
  const { describe, beforeEach, afterEach } = runner;
  const it = promisesOf('FileStorage', runner);

  describe(`FileStorage contract: ${name}`, () => {
    let subject: FileStorageContractSubject;
    beforeEach(async () => {
      subject = await setUp();
    });
    afterEach(() => subject.tearDown());

    const assertNothing = async () => {
      assertEqual(await subject.lines(), [], 'There are index lines of an upload that must not be visible.');
      assertEqual(await subject.contentPaths(), [], 'There are files of an upload that must not be visible.');
    };

    const assertFile = async (path: string | undefined, bytes: Buffer) => {
      assertBytes(await subject.bytes(path ?? ''), bytes, `The bytes at ${path ?? 'no path'}`);
    };

    for (const kind of UPLOAD_KINDS) {
      it(PROMISES.resolves, `stores a ${kind} upload without a file as one index line and no bytes`, async () => {
        const receivedAt = new Date('2025-03-30T23:59:59.987Z');
        const draft = anUploadDraft().with({ ...ODD_TEXTS, kind, receivedAt }).build();

        assertEqual(await seen(subject.storage, draft), { uploadId: draft.uploadId, content: null, replayed: false });

        assertEqual(await subject.lines(), [
          {
            upload_id: draft.uploadId,
            kind,
            customer_id: ODD_TEXTS.customerId,
            filename: ODD_TEXTS.filename,
            manufacturer: ODD_TEXTS.manufacturer,
            additional_data: ODD_TEXTS.additionalData,
            received_at: '2025-03-30T23:59:59.987Z',
            content_path: null,
            content_type: null,
            content_size: null,
            content_sha256: null,
          },
        ]);
        assertEqual(await subject.contentPaths(), []);
      });

      it(PROMISES.resolves, `stores a ${kind} upload with a file as one index line and the bytes at its path`, async () => {
        const receivedAt = new Date('2025-03-30T00:00:00.000Z');
        const draft = anUploadDraft().with({ kind, receivedAt, contentType: 'text/csv; a="b"' }).file('one,', 'two').build();

        const upload = await storeUpload(subject.storage, draft);

        const sha256 = sha256Of(Buffer.from('one,two'));
        assertEqual(upload.content, { path: draft.content?.path, type: 'text/csv; a="b"', size: 7, sha256 });
        assertEqual(await subject.lines(), [
          {
            upload_id: draft.uploadId,
            kind,
            customer_id: 'customer-1',
            filename: 'load.csv',
            manufacturer: 'Acme',
            additional_data: null,
            received_at: '2025-03-30T00:00:00.000Z',
            content_path: draft.content?.path,
            content_type: 'text/csv; a="b"',
            content_size: 7,
            content_sha256: sha256,
          },
        ]);
        assertEqual(await subject.contentPaths(), [draft.content?.path]);
        await assertFile(draft.content?.path, Buffer.from('one,two'));
      });
    }

    it(PROMISES.resolves, 'stores an empty file', async () => {
      const { content } = await storeUpload(subject.storage, anUploadDraft().file().build());
      assertMatches(content, { size: 0, sha256: sha256Of(Buffer.alloc(0)) });
      assertEqual(await subject.contentPaths(), [content?.path]);
      await assertFile(content?.path, Buffer.alloc(0));
    });

    for (const sizes of [[1], [0, 3, 0], [65_535, 65_536, 65_537], [1, 1_048_576, 2], Array<number>(300).fill(7)]) {
      it(PROMISES.order, `stores chunks of ${sizes.slice(0, 3).join(', ')}, ... bytes in the order in which they arrive`, async () => {
        const chunks = sizes.map((size) => randomBytes(size));
        const { content } = await storeUpload(subject.storage, anUploadDraft().file(...chunks).build());
        const bytes = Buffer.concat(chunks);
        assertMatches(content, { size: bytes.length, sha256: sha256Of(bytes) });
        await assertFile(content?.path, bytes);
      });
    }

    it(PROMISES.pull, 'stores 20 MiB, and requests each chunk only after the previous one has arrived', async () => {
      const chunks = Array.from({ length: 160 }, () => randomBytes(128 * KIB));
      const source = new CountingSource(chunks);
      const { content } = await storeUpload(subject.storage, anUploadDraft().with({ bytes: source }).build());
      const bytes = Buffer.concat(chunks);
      assertMatches(content, { size: 20 * MIB, sha256: sha256Of(bytes) });
      assert.equal(source.mostAtOnce, 1, `${source.mostAtOnce} chunks were requested at once, instead of 1.`);
      await assertFile(content?.path, bytes);
    });

    it(PROMISES.pull, `holds at most ${HELD_MIB} MiB of a file of ${LONG_MIB} MiB in memory`, async () => {
      if (subject.isInMemory) return;
      const { content } = await storeUpload(subject.storage, anUploadDraft().with({ bytes: longFile(LONG_MIB, HELD_MIB) }).build());
      assert.equal(content?.size, LONG_MIB * MIB);
    });

    for (const [what, hasFile] of [['without a file', false], ['with a file', true]] as const) {
      it(PROMISES.conclude, `calls conclude once, after the last byte and before anything is visible (${what})`, async () => {
        const source = new CountingSource([Buffer.from('one'), Buffer.from('two')]);
        const draft = anUploadDraft()
          .with({ bytes: hasFile ? source : null })
          .build();
        const calls: (StoredContent | null)[] = [];
        await seen(subject.storage, {
          ...draft,
          conclude: async (stored) => {
            calls.push(stored);
            assert.equal(source.ended, hasFile, 'conclude() was called before the last byte was read.');
            await assertNothing();
            return draft.conclude(stored);
          },
        });
        assertEqual(calls, [hasFile ? { size: 6, sha256: sha256Of(Buffer.from('onetwo')) } : null]);
        assert.equal((await subject.lines()).length, 1, 'There must be one line after conclude().');
      });
    }

    it(PROMISES.unchanged, 'rejects with the error that the bytes threw, and keeps nothing', async () => {
      const broken = new Error('the client went away');
      const bytes = Readable.from(
        (function* () {
          yield Buffer.alloc(100_000);
          throw broken;
        })(),
      );
      const draft = anUploadDraft().with({ bytes }).build();
      let concluded = false;
      const storing = seen(subject.storage, {
        ...draft,
        conclude: (stored) => {
          concluded = true;
          return draft.conclude(stored);
        },
      });
      assert.equal(await rejectionOf(storing), broken);
      assert.equal(concluded, false, 'conclude() was called, although not all bytes could be read.');
      await assertNothing();
      await subject.reopen();
      await assertNothing();
    });

    for (const [what, builder] of [['without a file', anUploadDraft()], ['with a file', anUploadDraft().file('bytes')]] as const) {
      it(PROMISES.concludeThrows, `rejects with the error that conclude threw, and keeps nothing (${what})`, async () => {
        const refused = new Error('the digest is another');
        const storing = seen(subject.storage, { ...builder.build(), conclude: () => Promise.reject(refused) });
        assert.equal(await rejectionOf(storing), refused);
        await assertNothing();
        await subject.reopen();
        await assertNothing();
      });
    }

    it(PROMISES.rejects, 'stores an upload after others have failed', async () => {
      const refused = { conclude: () => Promise.reject(new Error('refused')) };
      await Promise.allSettled(
        [anUploadDraft(), anUploadDraft().file('bytes')].map((builder) =>
          seen(subject.storage, { ...builder.build(), ...refused }),
        ),
      );
      const { uploadId } = await seen(subject.storage, anUploadDraft().file('bytes').build());
      assertMatches(await subject.lines(), [{ upload_id: uploadId }]);
    });

    it(PROMISES.restart, 'keeps its uploads across a restart, and stores more', async () => {
      const before = await storeUpload(subject.storage, anUploadDraft().file('before').build());
      const storage = await subject.reopen();
      const after = await storeUpload(storage, anUploadDraft().file('after').build());
      await subject.reopen();

      assertEqual(idsOf(await subject.lines()), [before.uploadId, after.uploadId]);
      await assertFile(before.content?.path, Buffer.from('before'));
      await assertFile(after.content?.path, Buffer.from('after'));
    });

    it(PROMISES.atOnce, 'keeps fifty simultaneous uploads separate, even when some of them fail', async () => {
      const broken = new Error('refused');
      const drafts = Array.from({ length: 50 }, (_, index): UploadDraft => {
        const builder = anUploadDraft().with({ kind: index % 2 ? 'historical' : 'nowcast', filename: `${index}.csv` });
        const draft = (index % 5 === 1 ? builder : builder.file(`file ${index}`, randomBytes(index * 997))).build();
        return index % 5 === 2 ? { ...draft, conclude: () => Promise.reject(broken) } : draft;
      });

      const outcomes = await Promise.allSettled(drafts.map((draft) => storeUpload(subject.storage, draft)));

      const stored = outcomes.flatMap((outcome) => (outcome.status === 'fulfilled' ? [outcome.value] : []));
      assert.equal(stored.length, 40, `${stored.length} of 50 uploads succeeded; 40 must, and 10 must fail.`);
      assertEqual(idsOf(await subject.lines()), stored.map(({ uploadId }) => uploadId).sort());
      assertEqual(
        (await subject.contentPaths()).sort(),
        stored.flatMap(({ content }) => content?.path ?? []).sort(),
      );
      for (const { content } of stored) {
        if (content) assert.equal(sha256Of((await subject.bytes(content.path)) ?? Buffer.alloc(0)), content.sha256, `Other bytes are at ${content.path}.`);
      }
    });

    for (const customerId of ['.', '..', 'a/b', '.hidden', 'Zürich & Co', '%2E', '~*', 'ß'.repeat(40), 'x'.repeat(128), '電'.repeat(26)]) {
      it(PROMISES.path, `stores the file of customer ${JSON.stringify(customerId)}`, async () => {
        const { content } = await storeUpload(subject.storage, anUploadDraft().with({ customerId }).file(customerId).build());
        await subject.reopen();
        assertEqual(await subject.contentPaths(), [content?.path]);
        assertMatches(await subject.lines(), [{ customer_id: customerId, content_path: content?.path }]);
        await assertFile(content?.path, Buffer.from(customerId));
      });
    }

    it(PROMISES.healthy, 'reports that it is healthy, and leaves nothing behind', async () => {
      await Promise.all([subject.storage.checkHealth(), subject.storage.checkHealth()]);
      await subject.storage.checkHealth();
      await assertNothing();
    });

    idempotencyContract(() => subject, runner);
  });
}

/** The size of a long file, and how much of it a store may hold in memory: several parts of an upload to a bucket. */
const LONG_MIB = 160;
const HELD_MIB = 96;

const ODD_TEXTS = {
  customerId: 'Zürich/ #1 "the one"',
  filename: 'a b.tar.GZ',
  manufacturer: '製造',
  additionalData: 'line one\nline two\r\u0000\u2028 {"not": "ours"} 🙂',
};

const sha256Of = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex');

const idsOf = (lines: object[]): unknown[] => lines.map((line) => 'upload_id' in line && line.upload_id).sort();
