import { symlinkSync, writeFileSync } from 'node:fs';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { uuidAt } from '../../../../../common/uuid.js';
import { GatedDisk } from '../../../../../testing/gated-disk.js';
import { LocalDiskFileStorage } from '../local-disk.file-storage.adapter.js';

const REMOVALS = 11_000;

describe('a backlog of many removals', () => {
  let directory: string;
  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'backlog-'));
  });
  afterEach(() => rm(directory, { recursive: true }));

  async function open(disk = new GatedDisk()): Promise<LocalDiskFileStorage> {
    const storage = await LocalDiskFileStorage.open({ directory, disk });
    await storage.eventOutbox.open();
    return storage;
  }

  it('is delivered in order, and its directory is listed once for each 10,000 of them', async () => {
    await open().then((storage) => storage.close());
    const ids = Array.from({ length: REMOVALS }, (_, at) => uuidAt(new Date(Date.parse('2026-01-01') + at)));
    for (const id of ids) {
      writeFileSync(join(directory, 'events', `${id}.removed`), `${JSON.stringify({ upload_id: id, kind: 'nowcast', customer_id: 'c', removed_at: '2026-01-01T00:00:00Z' })}\n`);
      symlinkSync(JSON.stringify({ lines: `events/${id}.removed`, offset: 0 }), join(directory, 'events', id));
    }
    const disk = new GatedDisk();
    let listings = 0;
    disk.gate = (perform, operation, path) => {
      if (operation === 'readLargeDirectory' && path === join(directory, 'events')) listings += 1;
      return perform();
    };
    const storage = await open(disk);
    const delivered: string[] = [];
    for (let batch = await storage.eventOutbox.next(500); batch; batch = await storage.eventOutbox.next(500)) {
      for (const event of batch.events) if (event.type === 'removed') delivered.push(event.uploadId);
      await batch.confirm();
    }
    expect(delivered).toEqual(ids);
    expect(listings).toBe(2);
    expect(await readdir(join(directory, 'events'))).toEqual([]);
    await storage.close();
  });
});
