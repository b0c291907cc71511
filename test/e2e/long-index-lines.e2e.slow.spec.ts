import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { answerMemory } from '../../src/common/memory-budget.js';
import { MIB } from '../../src/common/sizes.js';
import { LocalDiskFileStorage } from '../../src/ingestion/adapters/out/local-disk/local-disk.file-storage.adapter.js';
import { FileStorage } from '../../src/ingestion/application/ports/file-storage.port.js';
import type { Upload } from '../../src/ingestion/domain/upload.js';
import { GatedDisk } from '../../src/testing/gated-disk.js';
import { anUploadDraft, storeUpload } from '../../src/testing/upload-draft.builder.js';
import { startService } from '../support/service.js';
import { askUnread, lengthOfRest } from '../support/slow-clients.js';

describe('answers with long index lines', () => {
  /** A number of clients whose answers need several times the memory budget. */
  const CLIENTS = 6;
  let directory: string;
  let disk: GatedDisk;
  let storage: LocalDiskFileStorage;
  let upload: Upload;
  /**
   * The length of the upload's index line and of its answer, in bytes, but for some hundred. More than what the buffers
   * of a connection hold.
   */
  const LINE_BYTES = 2 * MIB * '\\u0001'.length;
  /** Half of the memory budget, which the tests take so that shorter lines exceed the rest. */
  const taken = answerMemory.hold('download');

  beforeAll(async () => {
    taken.tryGrow(answerMemory.bytes / 2);
    directory = await mkdtemp(join(tmpdir(), 'load-data-'));
    disk = new GatedDisk();
    storage = await LocalDiskFileStorage.open({ directory, disk });
    upload = await storeUpload(storage, anUploadDraft().with({ additionalData: '\u0001'.repeat(2 * MIB) }).build());
  });
  afterAll(async () => {
    taken.release();
    await storage.close();
    await rm(directory, { recursive: true });
  });
  afterEach(() => {
    disk.gate = (perform) => perform();
  });

  const start = (idleTimeoutMs: string) => startService({ REQUEST_IDLE_TIMEOUT_MS: idleTimeoutMs }, (builder) => builder.overrideProvider(FileStorage).useValue(storage));

  it.each([
    ['of one upload', () => `/uploads/${upload.uploadId}`],
    ['of a list', () => '/uploads'],
  ])('%s share a memory budget, and are all sent once their clients read them', async (_, target) => {
    const own = await start('60000');
    try {
      let most = 0;
      disk.gate = (perform) => {
        most = Math.max(most, answerMemory.usedFor('answer'));
        return perform();
      };
      const clients = await Promise.all(Array.from({ length: CLIENTS }, () => askUnread(own, target())));
      await expect.poll(() => answerMemory.waitingCount, { timeout: 30_000 }).toBeGreaterThan(CLIENTS / 2);
      for (const bytes of await Promise.all(clients.map(lengthOfRest))) expect(bytes).toBeGreaterThan(LINE_BYTES);
      // One answer at a time may exceed the budget, by a line and its answer.
      expect(most).toBeLessThan(answerMemory.bytes / 2 + 2 * LINE_BYTES + MIB);
      await expect.poll(() => answerMemory.usedFor('answer')).toBe(0);
    } finally {
      await own.close();
    }
  });

  it('are cut off if their clients read nothing for REQUEST_IDLE_TIMEOUT_MS, and return their memory', async () => {
    const own = await start('500');
    try {
      const tryTake = vi.spyOn(answerMemory, 'tryTake');
      const clients = await Promise.all(Array.from({ length: CLIENTS }, () => askUnread(own, `/uploads/${upload.uploadId}`)));
      await expect.poll(() => new Set(tryTake.mock.calls.map(([held]) => held)).size, { timeout: 30_000 }).toBe(CLIENTS);
      await expect.poll(() => answerMemory.usedFor('answer') + answerMemory.waitingCount, { timeout: 50_000 }).toBe(0);
      for (const bytes of await Promise.all(clients.map(lengthOfRest))) expect(bytes).toBeLessThan(LINE_BYTES);
    } finally {
      vi.restoreAllMocks();
      await own.close();
    }
  });

  it('give up their place in the queue when their clients hang up', async () => {
    const own = await start('60000');
    try {
      const silent = await Promise.all(Array.from({ length: 2 * CLIENTS }, () => askUnread(own, `/uploads/${upload.uploadId}`)));
      await expect.poll(() => answerMemory.waitingCount, { timeout: 30_000 }).toBeGreaterThan(CLIENTS);
      const before = disk.bytesRead;
      for (const client of silent) client.resetAndDestroy();
      await expect.poll(() => answerMemory.usedFor('answer') + answerMemory.waitingCount, { timeout: 30_000 }).toBe(0);
      // The lines for those in the queue aren't read.
      expect(disk.bytesRead - before).toBeLessThan(4 * LINE_BYTES);
    } finally {
      await own.close();
    }
  });
});
