import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { MIB } from '../../../../../common/sizes.js';
import { InMemoryBucket } from '../../../../../testing/in-memory.bucket.js';
import { anUploadDraft } from '../../../../../testing/upload-draft.builder.js';
import { indexLine } from '../../../../domain/layout.js';
import type { ListedObject } from '../bucket.js';
import { segmentOf } from '../segment-names.js';
import { BucketUploads } from './bucket-uploads.js';

const NOON = Date.parse('2026-03-10T12:00:00Z');
const CUSTOMER = 'customer-1';

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['Date'], now: NOON });
});
afterEach(() => {
  vi.useRealTimers();
});

/**
 * Notes how much a removal has to remember at a time: the segments of a day that it has listed and not rewritten yet,
 * and the files whose lines it has removed, but not the bytes. Each segment has one line, of an upload with a file.
 */
class RememberingBucket extends InMemoryBucket {
  /** The path of the file by the key of the segment with its line. */
  readonly files = new Map<string, string>();
  readonly most = { segments: 0, files: 0 };
  private readonly listedSegments = new Set<string>();
  private readonly filesWithoutLine = new Set<string>();

  override async *list(prefix: string): AsyncGenerator<ListedObject> {
    for await (const object of super.list(prefix)) {
      if (prefix.includes('/date=')) this.listedSegments.add(object.key);
      this.note();
      yield object;
    }
  }

  override async replace(key: string, bytes: Uint8Array, version?: string): Promise<string | undefined> {
    const written = await super.replace(key, bytes, version);
    this.settle([key]);
    return written;
  }

  override async remove(keys: readonly string[]): Promise<void> {
    await super.remove(keys);
    this.settle(keys);
  }

  private settle(keys: readonly string[]): void {
    for (const key of keys) {
      const file = this.files.get(key);
      if (file !== undefined) this.filesWithoutLine.add(file);
      this.listedSegments.delete(key);
      this.filesWithoutLine.delete(key);
    }
    this.note();
  }

  private note(): void {
    this.most.segments = Math.max(this.most.segments, this.listedSegments.size);
    this.most.files = Math.max(this.most.files, this.filesWithoutLine.size);
  }
}

/** Stores uploads of a customer, each with a file and a segment of its own. */
async function filled(uploads: number, additionalData: string | null): Promise<RememberingBucket> {
  const bucket = new RememberingBucket();
  for (let index = 0; index < uploads; index++) {
    const draft = anUploadDraft().with({ customerId: CUSTOMER, receivedAt: new Date(NOON - (index + 1) * 10_000), additionalData }).file('bytes').build();
    const upload = await draft.conclude({ size: 5, sha256: '' });
    const path = draft.content?.path ?? '';
    await bucket.create(path, Buffer.from('bytes'));
    await bucket.create(segmentOf(upload), Buffer.from(`${indexLine(upload)}\n`));
    bucket.files.set(segmentOf(upload), path);
  }
  return bucket;
}

it.each<[string, number, string | null, { segments: number; files: number }]>([
  ['of 500 segments', 1_700, null, { segments: 501, files: 500 }],
  ['of 8 MiB', 6, 'x'.repeat(3 * MIB), { segments: 3, files: 2 }],
])('a removal of a customer works in batches %s, however many segments there are', async (_, uploads, text, most) => {
  const bucket = await filled(uploads, text);
  expect(await new BucketUploads(bucket).removeAll({ customerId: CUSTOMER })).toBe(uploads);
  expect(bucket.most).toEqual(most);
  expect(bucket.keys.filter((key) => key.startsWith('files/') || key.startsWith('staging/'))).toEqual([]);
});
