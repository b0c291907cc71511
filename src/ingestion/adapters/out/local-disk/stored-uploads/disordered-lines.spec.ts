import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { listed } from '../../../../../testing/stored-uploads.calls.js';
import { anUploadDraft, storeUpload } from '../../../../../testing/upload-draft.builder.js';
import { comparePositions } from '../../../../domain/upload-filter.js';
import type { Upload } from '../../../../domain/upload.js';
import { LocalDiskFileStorage } from '../local-disk.file-storage.adapter.js';

const NOON = Date.parse('2026-03-10T12:00:00Z');
const MOST_DISORDER_MS = 9_000;
/** So long that a page reads a part of the lines only. */
const TEXT = 'x'.repeat(1_000);

it('are listed in the order of their times, each once, in whatever order within ten seconds they were written', async () => {
  // Some differences are exactly those at which a search in a segment ends, or a millisecond more or less.
  const delay = fc.oneof(fc.constantFrom(0, 1, 999, 1_000, MOST_DISORDER_MS - 1, MOST_DISORDER_MS), fc.integer({ min: 0, max: MOST_DISORDER_MS }));
  const times = fc.array(delay, { minLength: 30, maxLength: 60 });
  await fc.assert(
    fc.asyncProperty(times, fc.integer({ min: 1, max: 7 }), async (delays, limit) => {
      const directory = await mkdtemp(join(tmpdir(), 'disordered-lines-'));
      const storage = await LocalDiskFileStorage.open({ directory });
      const stored: Upload[] = [];
      // The times rise by a second from line to line, less a delay.
      for (const [index, delay] of delays.entries()) {
        stored.push(await storeUpload(storage, anUploadDraft().with({ receivedAt: new Date(NOON + 1_000 * index - delay), additionalData: TEXT }).build()));
      }
      const found = await listed(storage.storedUploads, {}, limit);
      await storage.close();
      await rm(directory, { recursive: true });
      const ids = (uploads: readonly Upload[]) => uploads.map(({ uploadId }) => uploadId);
      expect(ids(found)).toEqual(ids(stored.sort((one, other) => comparePositions(other, one))));
    }),
    { numRuns: 15 },
  );
});
