import { createHash, randomBytes } from 'node:crypto';
import { Readable } from 'node:stream';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { FileStorage, StoredContent, UploadDraft, UploadReceipt } from '../ingestion/application/ports/file-storage.port.js';
import { UPLOAD_KINDS } from '../ingestion/domain/upload.js';
import { anUploadDraft, storeUpload } from './upload-draft.builder.js';

/** A new, empty store, and access to its contents that bypasses the port. */
export interface FileStorageContractSubject {
  readonly storage: FileStorage;
  /** Restarts the store: closes the previous storage and returns a new one on the same contents. */
  reopen(): Promise<FileStorage>;
  /** All index lines, parsed, in any order. */
  lines(): Promise<object[]>;
  /** The bytes of the file at a content path; null if there is no such file. */
  bytes(path: string): Promise<Buffer | null>;
  /** The content paths of all visible files. */
  contentPaths(): Promise<string[]>;
  /**
   * Stores a draft as if it had been complete `ageMs` milliseconds ago. For stores where `receivedAt` alone doesn't
   * decide the age of an upload.
   */
  storeEarlier?(draft: UploadDraft, ageMs: number): Promise<unknown>;
  /** Releases the resources of the subject. */
  tearDown(): Promise<void>;
}

/**
 * Stores a draft. Returns what a receipt says: a store may return more, such as the upload itself, and may leave out
 * `replayed` for an upload that was stored now.
 */
async function seen(storage: FileStorage, draft: UploadDraft): Promise<UploadReceipt> {
  const { uploadId, content, replayed = false } = await storage.store(draft);
  return { uploadId, content: content && { size: content.size, sha256: content.sha256 }, replayed };
}

/**
 * The tests that every `FileStorage` must pass: the promises of the port that can be observed without making parts of a
 * store fail.
 *
 * @param setUp creates a new subject for each test.
 */
export function fileStorageContract(name: string, setUp: () => Promise<FileStorageContractSubject>): void {
  describe(`FileStorage contract: ${name}`, () => {
    let subject: FileStorageContractSubject;
    beforeEach(async () => {
      subject = await setUp();
    });
    afterEach(() => subject.tearDown());

    const expectNothing = async () => {
      expect(await subject.lines()).toEqual([]);
      expect(await subject.contentPaths()).toEqual([]);
    };

    const expectFile = async (path: string | undefined, bytes: Buffer) => {
      const stored = await subject.bytes(path ?? '');
      expect(stored?.equals(bytes)).toBe(true);
    };

    it.each(UPLOAD_KINDS)('stores a %s upload without a file as one index line and no bytes', async (kind) => {
      const receivedAt = new Date('2025-03-30T23:59:59.987Z');
      const draft = anUploadDraft().with({ ...ODD_TEXTS, kind, receivedAt }).build();

      expect(await seen(subject.storage, draft)).toEqual({ uploadId: draft.uploadId, content: null, replayed: false });

      expect(await subject.lines()).toEqual([
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
      expect(await subject.contentPaths()).toEqual([]);
    });

    it.each(UPLOAD_KINDS)('stores a %s upload with a file as one index line and the bytes at its path', async (kind) => {
      const receivedAt = new Date('2025-03-30T00:00:00.000Z');
      const draft = anUploadDraft().with({ kind, receivedAt, contentType: 'text/csv; a="b"' }).file('one,', 'two').build();

      const upload = await storeUpload(subject.storage, draft);

      const sha256 = sha256Of(Buffer.from('one,two'));
      expect(upload.content).toEqual({ path: draft.content?.path, type: 'text/csv; a="b"', size: 7, sha256 });
      expect(await subject.lines()).toEqual([
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
      expect(await subject.contentPaths()).toEqual([draft.content?.path]);
      await expectFile(draft.content?.path, Buffer.from('one,two'));
    });

    it('stores an empty file', async () => {
      const { content } = await storeUpload(subject.storage, anUploadDraft().file().build());
      expect(content).toMatchObject({ size: 0, sha256: sha256Of(Buffer.alloc(0)) });
      expect(await subject.contentPaths()).toEqual([content?.path]);
      await expectFile(content?.path, Buffer.alloc(0));
    });

    it.each([[1], [0, 3, 0], [65_535, 65_536, 65_537], [1, 1_048_576, 2], Array<number>(300).fill(7)])(
      'stores chunks of %j, ... bytes in the order in which they arrive',
      async (...sizes) => {
        const chunks = sizes.map((size) => randomBytes(size));
        const { content } = await storeUpload(subject.storage, anUploadDraft().file(...chunks).build());
        const bytes = Buffer.concat(chunks);
        expect(content).toMatchObject({ size: bytes.length, sha256: sha256Of(bytes) });
        await expectFile(content?.path, bytes);
      },
    );

    it('stores 20 MiB, and requests each chunk only after the previous one has arrived', async () => {
      const chunks = Array.from({ length: 160 }, () => randomBytes(128 * 1024));
      const source = new CountingSource(chunks);
      const { content } = await storeUpload(subject.storage, anUploadDraft().with({ bytes: source }).build());
      const bytes = Buffer.concat(chunks);
      expect(content).toMatchObject({ size: 20 * 1024 * 1024, sha256: sha256Of(bytes) });
      expect(source.mostAtOnce).toBe(1);
      await expectFile(content?.path, bytes);
    });

    it.each([
      ['without a file', false],
      ['with a file', true],
    ])('calls conclude once, after the last byte and before anything is visible (%s)', async (_, hasFile) => {
      const source = new CountingSource([Buffer.from('one'), Buffer.from('two')]);
      const draft = anUploadDraft()
        .with({ bytes: hasFile ? source : null })
        .build();
      const calls: (StoredContent | null)[] = [];
      await seen(subject.storage, {
        ...draft,
        conclude: async (stored) => {
          calls.push(stored);
          expect(source.ended).toBe(hasFile);
          await expectNothing();
          return draft.conclude(stored);
        },
      });
      expect(calls).toEqual([hasFile ? { size: 6, sha256: sha256Of(Buffer.from('onetwo')) } : null]);
      expect(await subject.lines()).toHaveLength(1);
    });

    it('rejects with the error that the bytes threw, and keeps nothing', async () => {
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
      expect(await storing.catch((error: unknown) => error)).toBe(broken);
      expect(concluded).toBe(false);
      await expectNothing();
      await subject.reopen();
      await expectNothing();
    });

    it.each([
      ['without a file', anUploadDraft()],
      ['with a file', anUploadDraft().file('bytes')],
    ])('rejects with the error that conclude threw, and keeps nothing (%s)', async (_, builder) => {
      const refused = new Error('the digest is another');
      const storing = seen(subject.storage, { ...builder.build(), conclude: () => Promise.reject(refused) });
      expect(await storing.catch((error: unknown) => error)).toBe(refused);
      await expectNothing();
      await subject.reopen();
      await expectNothing();
    });

    it('stores an upload after others have failed', async () => {
      const refused = { conclude: () => Promise.reject(new Error('refused')) };
      await Promise.allSettled(
        [anUploadDraft(), anUploadDraft().file('bytes')].map((builder) =>
          seen(subject.storage, { ...builder.build(), ...refused }),
        ),
      );
      const { uploadId } = await seen(subject.storage, anUploadDraft().file('bytes').build());
      expect(await subject.lines()).toMatchObject([{ upload_id: uploadId }]);
    });

    it('keeps its uploads across a restart, and stores more', async () => {
      const before = await storeUpload(subject.storage, anUploadDraft().file('before').build());
      const storage = await subject.reopen();
      const after = await storeUpload(storage, anUploadDraft().file('after').build());
      await subject.reopen();

      expect(idsOf(await subject.lines())).toEqual([before.uploadId, after.uploadId]);
      await expectFile(before.content?.path, Buffer.from('before'));
      await expectFile(after.content?.path, Buffer.from('after'));
    });

    it('keeps fifty simultaneous uploads separate, even when some of them fail', async () => {
      const broken = new Error('refused');
      const drafts = Array.from({ length: 50 }, (_, index): UploadDraft => {
        const builder = anUploadDraft().with({ kind: index % 2 ? 'historical' : 'nowcast', filename: `${index}.csv` });
        const draft = (index % 5 === 1 ? builder : builder.file(`file ${index}`, randomBytes(index * 997))).build();
        return index % 5 === 2 ? { ...draft, conclude: () => Promise.reject(broken) } : draft;
      });

      const outcomes = await Promise.allSettled(drafts.map((draft) => storeUpload(subject.storage, draft)));

      const stored = outcomes.flatMap((outcome) => (outcome.status === 'fulfilled' ? [outcome.value] : []));
      expect(stored).toHaveLength(40);
      expect(idsOf(await subject.lines())).toEqual(stored.map(({ uploadId }) => uploadId).sort());
      expect((await subject.contentPaths()).sort()).toEqual(
        stored.flatMap(({ content }) => content?.path ?? []).sort(),
      );
      for (const { content } of stored) {
        if (content) expect(sha256Of((await subject.bytes(content.path)) ?? Buffer.alloc(0))).toBe(content.sha256);
      }
    });

    it.each(['.', '..', 'a/b', '.hidden', 'Zürich & Co', '%2E', '~*', 'ß'.repeat(40), 'x'.repeat(128), '電'.repeat(26)])(
      'stores the file of customer %j',
      async (customerId) => {
        const { content } = await storeUpload(subject.storage, anUploadDraft().with({ customerId }).file(customerId).build());
        await subject.reopen();
        expect(await subject.contentPaths()).toEqual([content?.path]);
        expect(await subject.lines()).toMatchObject([{ customer_id: customerId, content_path: content?.path }]);
        await expectFile(content?.path, Buffer.from(customerId));
      },
    );

    describe('under an idempotency key', () => {
      const KEYED = { idempotencyKey: 'key!"~', customerId: 'customer-1' };

      it.each([
        ['without a file', () => anUploadDraft().with(KEYED)],
        ['with a file', () => anUploadDraft().with(KEYED).file('one,', 'two')],
      ])('answers a repeated request with the first receipt, even after a restart (%s)', async (_, builder) => {
        const first = await seen(subject.storage, builder().build());
        expect(first.replayed).toBe(false);
        expect(await seen(subject.storage, builder().build())).toEqual({ ...first, replayed: true });
        const storage = await subject.reopen();
        expect(await seen(storage, builder().build())).toEqual({ ...first, replayed: true });

        expect(await subject.lines()).toMatchObject([{ upload_id: first.uploadId, idempotency_key: 'key!"~' }]);
        expect(await subject.contentPaths()).toHaveLength(first.content ? 1 : 0);
      });

      it.each([
        ['another filename', anUploadDraft().with({ ...KEYED, filename: 'other.csv' })],
        ['another manufacturer', anUploadDraft().with({ ...KEYED, manufacturer: 'other' })],
        ['additional data', anUploadDraft().with({ ...KEYED, additionalData: '' })],
        ['a file', anUploadDraft().with(KEYED).file()],
      ])('rejects a different request under the same key: %s', async (_, builder) => {
        await seen(subject.storage, anUploadDraft().with(KEYED).build());
        await expect(seen(subject.storage, builder.build())).rejects.toMatchObject({ kind: 'idempotency-key-reused' });
        expect(await subject.lines()).toHaveLength(1);
        expect(await subject.contentPaths()).toEqual([]);
      });

      it('rejects a different file under the same key, and keeps none of its bytes', async () => {
        const { content } = await storeUpload(subject.storage, anUploadDraft().with(KEYED).file('one').build());
        const other = seen(subject.storage, anUploadDraft().with(KEYED).file('two').build());
        await expect(other).rejects.toMatchObject({ kind: 'idempotency-key-reused' });
        expect(await subject.contentPaths()).toEqual([content?.path]);
      });

      it.each([
        ['kind', { kind: 'nowcast' as const }],
        ['customer', { customerId: 'customer-2' }],
        ['key', { idempotencyKey: 'KEY!"~' }],
      ])('stores an upload with another %s separately', async (_, changes) => {
        await seen(subject.storage, anUploadDraft().with(KEYED).build());
        const other = await seen(subject.storage, anUploadDraft().with({ ...KEYED, ...changes }).build());
        expect(other.replayed).toBe(false);
        expect(await subject.lines()).toHaveLength(2);
      });

      it('stores a repeated request again after 24 hours, but not earlier', async () => {
        const now = Date.now();
        for (const [idempotencyKey, hours] of [['old', 24.01], ['new', 23.9]] as const) {
          const ageMs = hours * 3_600_000;
          const draft = anUploadDraft().with({ idempotencyKey, receivedAt: new Date(now - ageMs) }).build();
          await (subject.storeEarlier?.(draft, ageMs) ?? seen(subject.storage, draft));
        }
        const again = (idempotencyKey: string) => seen(subject.storage, anUploadDraft().with({ idempotencyKey }).build());
        expect(await again('old')).toMatchObject({ replayed: false });
        expect(await again('old')).toMatchObject({ replayed: true });
        expect(await again('new')).toMatchObject({ replayed: true });
      });

      it.each([
        ['20 hours before it began', -20],
        ['20 hours after it began', 20],
        ['72 hours after it began', 72],
      ])('recognizes a repeated request when, by the clock, the first upload was completed %s', async (_, hours) => {
        await seen(subject.storage, anUploadDraft().with({ idempotencyKey: 'earlier' }).build());
        const receivedAt = new Date(Date.now() + hours * 3_600_000);
        const first = await seen(subject.storage, anUploadDraft().with({ ...KEYED, receivedAt }).build());
        const again = () => anUploadDraft().with(KEYED).build();
        expect(await seen(subject.storage, again())).toEqual({ ...first, replayed: true });
        const storage = await subject.reopen();
        expect(await seen(storage, again())).toEqual({ ...first, replayed: true });
        expect(await subject.lines()).toHaveLength(2);
      });

      it('stores one of fifty simultaneous requests, and answers a later one with its receipt', async () => {
        const drafts = Array.from({ length: 50 }, () => anUploadDraft().with(KEYED).file('the', 'file').build());
        const outcomes = await Promise.allSettled(drafts.map((draft) => seen(subject.storage, draft)));
        const stored = outcomes.flatMap((outcome) => (outcome.status === 'fulfilled' && !outcome.value.replayed ? [outcome.value] : []));
        expect(stored).toHaveLength(1);
        for (const outcome of outcomes) {
          if (outcome.status === 'rejected') expect(outcome.reason).toMatchObject({ kind: 'request-in-progress', retryAfterSeconds: 1 });
        }
        const late = await seen(subject.storage, anUploadDraft().with(KEYED).file('thefile').build());
        expect(late).toEqual({ ...stored[0], replayed: true });
        expect(await subject.lines()).toHaveLength(1);
        expect(await subject.contentPaths()).toHaveLength(1);
      });

      it('frees the key when an upload fails', async () => {
        const refused = new Error('refused');
        const failing = { ...anUploadDraft().with(KEYED).file('one').build(), conclude: () => Promise.reject(refused) };
        await expect(seen(subject.storage, failing)).rejects.toBe(refused);
        const storage = await subject.reopen();
        expect(await seen(storage, anUploadDraft().with(KEYED).file('two').build())).toMatchObject({ replayed: false });
      });

      it('rejects a request while the first is in progress, without reading any of its bytes', async () => {
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
        await concluding;
        const source = new CountingSource([Buffer.from('bytes')]);
        const second = seen(subject.storage, anUploadDraft().with({ ...KEYED, bytes: source }).build());
        await expect(second).rejects.toMatchObject({ kind: 'request-in-progress' });
        expect(source.mostAtOnce).toBe(0);
        goOn();
        expect(await storing).toMatchObject({ uploadId: first.uploadId, replayed: false });
      });
    });

    it('reports that it is healthy, and leaves nothing behind', async () => {
      await Promise.all([subject.storage.checkHealth(), subject.storage.checkHealth()]);
      await subject.storage.checkHealth();
      await expectNothing();
    });
  });
}

const ODD_TEXTS = {
  customerId: 'Zürich/ #1 "the one"',
  filename: 'a b.tar.GZ',
  manufacturer: '製造',
  additionalData: 'line one\nline two\r\u0000\u2028 {"not": "ours"} 🙂',
};

const sha256Of = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex');

const idsOf = (lines: object[]): unknown[] => lines.map((line) => 'upload_id' in line && line.upload_id).sort();

/** Yields chunks one at a time, and records the most chunks that were requested at once. */
class CountingSource implements AsyncIterable<Uint8Array> {
  mostAtOnce = 0;
  ended = false;
  private asked = 0;

  constructor(private readonly chunks: Uint8Array[]) {}

  [Symbol.asyncIterator](): AsyncIterator<Uint8Array> {
    let next = 0;
    return {
      next: async () => {
        this.mostAtOnce = Math.max(this.mostAtOnce, ++this.asked);
        await new Promise(setImmediate);
        this.asked--;
        const value = this.chunks[next++];
        this.ended ||= value === undefined;
        return value ? { value, done: false } : { value: undefined, done: true };
      },
    };
  }
}
