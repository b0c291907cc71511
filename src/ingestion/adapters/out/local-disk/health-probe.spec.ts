import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { DataDirectoryView } from '../../../../testing/data-directory.view.js';
import { GatedDisk } from '../../../../testing/gated-disk.js';
import { HealthProbe } from './health-probe.js';
import { StoreDirectory } from './store-directory.js';

describe('HealthProbe', () => {
  let view: DataDirectoryView;
  let disk: GatedDisk;
  let probe: HealthProbe;
  let operations: string[];
  let isHeld: boolean;

  beforeEach(async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
    view = new DataDirectoryView(await mkdtemp(join(tmpdir(), 'health-')));
    operations = [];
    isHeld = true;
    disk = new GatedDisk();
    disk.gate = (perform, operation) => {
      operations.push(operation);
      return perform();
    };
    await mkdir(view.at('idempotency'));
    const store = new StoreDirectory(disk, view.directory, { warn: () => undefined }, 1, { isHeld: () => isHeld, release: () => undefined });
    for (const part of store.parts) await store.directories.ensure(part);
    probe = new HealthProbe(store);
  });
  afterEach(async () => {
    vi.useRealTimers();
    await rm(view.directory, { recursive: true });
  });

  const probes = () => operations.filter((operation) => operation === 'create').length;

  it('writes, syncs and removes a file, even one left behind by a crash', async () => {
    await probe.check();
    await writeFile(view.at('.health'), 'left');
    operations = [];
    vi.advanceTimersByTime(1000);
    await probe.check();
    expect(operations).toEqual([...Array<string>(6).fill('assertWritable'), ...Array<string>(2).fill('isNameTaken'), 'assertWritable', ...Array<string>(2).fill('readDirectory'), 'removeTree', 'create', 'file.write', 'file.write', 'file.sync', 'file.close', 'remove']);
    expect(await view.files('.')).toEqual([]);
  });

  it('shares one attempt among simultaneous callers, and caches its result for a second', async () => {
    await Promise.all([probe.check(), probe.check()]);
    vi.advanceTimersByTime(999);
    await probe.check();
    expect(probes()).toBe(1);
    vi.advanceTimersByTime(1);
    await probe.check();
    expect(probes()).toBe(2);
  });

  it.each(['create', 'file.write', 'file.sync', 'remove'] as const)(
    'rejects with the reason when %s fails, and is healthy again a second later',
    async (operation) => {
      const cause = disk.failNext(operation);
      await expect(probe.check()).rejects.toMatchObject({ kind: 'storage-failure', cause });
      await expect(probe.check()).rejects.toMatchObject({ kind: 'storage-failure', cause });
      vi.advanceTimersByTime(1000);
      await probe.check();
      expect(await view.files('.')).toEqual([]);
    },
  );

  it('rejects with what to do when the databases of idempotency keys cannot be written', async () => {
    const cause = disk.failNext('assertWritable', /idempotency$/);
    const message = `${view.at('idempotency')} can't be written (${cause.message}): mount it for writing`;
    await expect(probe.check()).rejects.toMatchObject({ kind: 'storage-failure', cause: { message, cause } });
  });

  it('rejects in less than five seconds while the disk does not respond, and is healthy again when it does', async () => {
    const held = disk.holdNext('file.sync');
    const answers = Promise.allSettled([probe.check(), probe.check()]);
    await held.reached;
    vi.advanceTimersByTime(4999);
    expect(await answers).toMatchObject([
      { status: 'rejected', reason: { kind: 'storage-failure' } },
      { status: 'rejected', reason: { kind: 'storage-failure' } },
    ]);
    const patient = probe.check();
    held.release();
    await patient;
    expect(probes()).toBe(1);
  });
});
