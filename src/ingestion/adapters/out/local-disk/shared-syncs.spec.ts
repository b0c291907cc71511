import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { GatedDisk } from '../../../../testing/gated-disk.js';
import { SharedSyncs } from './shared-syncs.js';

describe('SharedSyncs', () => {
  let directory: string;
  let disk: GatedDisk;
  let synced: string[];
  let syncs: SharedSyncs;

  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'syncs-'));
    disk = new GatedDisk();
    synced = [];
    disk.gate = (perform, _operation, path) => {
      synced.push(path);
      return perform();
    };
    syncs = new SharedSyncs(disk);
  });
  afterEach(() => rm(directory, { recursive: true }));

  it('lets callers that arrive during a sync share the next one, not the one in progress', async () => {
    const held = disk.holdNext('syncDirectory');
    const first = syncs.sync(directory);
    await held.reached;
    const later = [1, 2, 3].map(() => syncs.sync(directory));
    let laterDone = false;
    void Promise.race(later).then(() => (laterDone = true));
    await syncs.sync(tmpdir());
    expect(laterDone).toBe(false);
    held.release();
    await Promise.all([first, ...later]);
    expect(synced.filter((path) => path === directory)).toHaveLength(2);
    await syncs.sync(directory);
    expect(synced.filter((path) => path === directory)).toHaveLength(3);
  });

  it('rejects the callers that waited for a failed sync, and no others', async () => {
    const held = disk.holdNext('syncDirectory');
    const first = syncs.sync(directory);
    await held.reached;
    const error = disk.failNext('syncDirectory');
    const shared = [syncs.sync(directory), syncs.sync(directory)];
    const outcomes = Promise.allSettled(shared);
    held.release();
    await first;
    expect(await outcomes).toEqual([{ status: 'rejected', reason: error }, { status: 'rejected', reason: error }]);
    await syncs.sync(directory);
  });
});
