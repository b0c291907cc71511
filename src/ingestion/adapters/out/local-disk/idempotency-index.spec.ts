import { copyFile, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'libsql';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { DataDirectoryView } from '../../../../testing/data-directory.view.js';
import { GatedDisk } from '../../../../testing/gated-disk.js';
import { anUploadDraft } from '../../../../testing/upload-draft.builder.js';
import { MIB } from '../../../../common/sizes.js';
import { LocalDiskFileStorage } from './local-disk.file-storage.adapter.js';
import { DamagedDatabaseError, type SelfCheckingDatabase } from './self-checking-database.js';

const NOON = Date.parse('2025-06-10T12:00:00Z');
const DATABASE = '2025-06-10.db';
/**
 * The bytes of a file that is too large for a journal, so the file is written to `staging/`, with a marker in
 * `pending/`.
 */
const LARGE = 'x'.repeat(2 * MIB);

describe('marking a segment as read in the index of keys', () => {
  let base: string;
  let view: DataDirectoryView;
  let disk: GatedDisk;
  let storage: LocalDiskFileStorage;

  const open = async (maxSegmentBytes?: number) => {
    disk = new GatedDisk();
    const logger = { warn: () => undefined };
    storage = await LocalDiskFileStorage.open({ directory: view.directory, disk, logger, ...(maxSegmentBytes && { maxSegmentBytes }) });
  };
  const draft = (idempotencyKey: string, bytes = 'bytes') => anUploadDraft().with({ idempotencyKey, receivedAt: new Date() }).file(bytes).build();
  const store = (key: string, bytes?: string) => storage.store(draft(key, bytes));

  /**
   * The number of idempotency keys in the database of the day, read from a copy, because the service has locked the
   * database itself.
   */
  const keysInIndex = async (): Promise<number> => {
    const copy = join(base, 'copy.db');
    for (const suffix of ['', '-wal']) await copyFile(view.at(`idempotency/${DATABASE}${suffix}`), copy + suffix);
    const database = new Database(copy);
    try {
      const { count } = database.prepare(`SELECT count(*) AS count FROM entries WHERE instr(record, CAST('"uploadId"' AS BLOB)) > 0`).get() as { count: number };
      return count;
    } finally {
      database.close();
      for (const suffix of ['', '-wal', '-shm']) await rm(copy + suffix, { force: true });
    }
  };
  const untilIndexed = (count: number) => expect.poll(() => keysInIndex().catch(() => 0), { timeout: 10_000 }).toBe(count);

  beforeEach(async () => {
    vi.useFakeTimers({ toFake: ['Date'], now: NOON });
    base = await mkdtemp(join(tmpdir(), 'idempotency-index-'));
    view = new DataDirectoryView(join(base, 'data'));
  });
  afterEach(async () => {
    await storage.close();
    expect(disk.openFiles).toEqual([]);
    await disk.die();
    vi.useRealTimers();
    await rm(base, { recursive: true });
  });

  it('waits while the segment contains the line of an earlier upload whose key is not known yet', async () => {
    // Limits segments to one byte, so that each index line gets its own segment.
    await open(1);
    const held = disk.holdNext('remove');
    const running = store('running', LARGE);
    await held.reached;
    expect(await view.lines()).toHaveLength(1);
    await store('other');
    await untilIndexed(1);
    await disk.die();
    void running;
    await open();
    expect(await store('running', LARGE)).toMatchObject({ replayed: true });
    expect(await store('other')).toMatchObject({ replayed: true });
  });

  it('is left out in a database that replaced a damaged one', async () => {
    await open(1);
    const openDatabase = vi.spyOn(disk, 'openDatabase');
    let refuse = (): void => undefined;
    const refused = new Promise<never>((_, failed) => {
      refuse = () => { failed(new Error('broken off')); };
    });
    // As long as this upload is in progress, the index doesn't list the segments that are closed meanwhile.
    const running = Promise.allSettled([storage.store({ ...draft('running'), conclude: () => refused })]);
    await expect.poll(() => store('running').catch((error: unknown) => error)).toMatchObject({ kind: 'request-in-progress' });
    const late = Array.from({ length: 3 }, (_, number) => `late ${number}`);
    for (const key of late) await store(key);
    await untilIndexed(late.length);
    const [opened] = openDatabase.mock.results;
    vi.spyOn(opened?.value as SelfCheckingDatabase, 'putAll').mockImplementationOnce(() => {
      throw new DamagedDatabaseError(view.at(`idempotency/${DATABASE}`), 'its contents fail their checksums');
    });
    refuse();
    await running;
    await storage.close();
    expect(await view.files('idempotency')).toContainEqual(expect.stringContaining('.damaged-1'));
    await open();
    for (const key of late) expect(await store(key)).toMatchObject({ replayed: true });
  });

  it('lists the segment as open until then, so that its keys are free again if a crash loses it', async () => {
    await open(1);
    void storage.store({ ...draft('running'), conclude: () => new Promise(() => undefined) });
    await expect.poll(() => store('running').catch((error: unknown) => error)).toMatchObject({ kind: 'request-in-progress' });
    for (const key of ['lost', 'lost too', 'kept']) await store(key);
    await untilIndexed(3);
    await disk.die();
    for (const segment of (await view.files('uploads')).sort().slice(0, -1)) await rm(view.at(segment));
    await open();
    expect(await store('kept')).toMatchObject({ replayed: true });
    for (const key of ['lost', 'lost too']) expect(await store(key)).toMatchObject({ replayed: false });
  });
});
