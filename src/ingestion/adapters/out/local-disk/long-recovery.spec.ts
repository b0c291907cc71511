import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { GatedDisk } from '../../../../testing/gated-disk.js';
import { anUploadDraft } from '../../../../testing/upload-draft.builder.js';
import { LocalDiskFileStorage } from './local-disk.file-storage.adapter.js';

const UPLOADS = 100;
/** The most texts that one turn of a job may parse in these tests. */
const MAX_AT_ONCE = 10;

describe('a long recovery', () => {
  let directory: string;
  let disk: GatedDisk;
  let storage: LocalDiskFileStorage;
  let ids: string[];

  const open = async (): Promise<void> => {
    disk = new GatedDisk();
    storage = await LocalDiskFileStorage.open({ directory, disk, logger: { warn: () => undefined } });
  };

  /**
   * Does work. Resolves to the texts that `JSON.parse` got meanwhile, one list for each iteration of the event loop.
   * Each call of `performance.now` advances the faked clock by 1 ms, so that a turn has a known number of steps.
   */
  const parsedDuring = async (work: () => Promise<unknown>): Promise<string[][]> => {
    let now = 0;
    vi.spyOn(performance, 'now').mockImplementation(() => now++);
    const parse = vi.spyOn(JSON, 'parse');
    const parsed: string[][] = [];
    const collect = (): void => {
      parsed.push(parse.mock.calls.map(([text]) => text));
      parse.mockClear();
    };
    let watched: NodeJS.Immediate;
    const watch = (): void => {
      collect();
      watched = setImmediate(watch);
    };
    watched = setImmediate(watch);
    try {
      await work();
    } finally {
      clearImmediate(watched);
      collect();
      vi.restoreAllMocks();
    }
    return parsed;
  };
  /** Expects that all texts with a member were parsed, only a few of them in one iteration of the event loop. */
  const expectTurns = (parsed: readonly string[][], member: string): void => {
    const counts = parsed.map((texts) => texts.filter((text) => text.includes(member)).length);
    expect(counts.reduce((sum, count) => sum + count)).toBeGreaterThanOrEqual(UPLOADS);
    expect(counts.filter((count) => count > MAX_AT_ONCE)).toEqual([]);
  };

  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'long-recovery-'));
    await open();
    const drafts = Array.from({ length: UPLOADS }, () => anUploadDraft().file('bytes').build());
    ids = drafts.map(({ uploadId }) => uploadId);
    await Promise.all(drafts.map((draft) => storage.store(draft)));
  });
  afterEach(async () => {
    await storage.close();
    await disk.die();
    await rm(directory, { recursive: true });
  });

  it('from a crash yields to other work while it reads a journal and index lines', async () => {
    await disk.die();
    const parsed = await parsedDuring(open);
    expectTurns(parsed, '"segment":');
    expectTurns(parsed, '"received_at":');
  });

  it('of a failed removal yields to other work while it reads the list', async () => {
    disk.gate = (perform, operation, path) =>
      operation === 'rename' && path.endsWith('.ndjson') ? Promise.reject(Object.assign(new Error('EIO: i/o error'), { code: 'EIO' })) : perform();
    await expect(storage.storedUploads.removeAll({}, {})).rejects.toMatchObject({ kind: 'storage-failure' });
    disk.gate = (perform) => perform();
    const parsed = await parsedDuring(async () => { expect(await storage.storedUploads.remove(ids[0] ?? '')).toBe(true); });
    expectTurns(parsed, '"scope":');
  });
});
