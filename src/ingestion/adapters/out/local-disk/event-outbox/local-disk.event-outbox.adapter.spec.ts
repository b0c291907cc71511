import { appendFile, lstat, mkdir, mkdtemp, readdir, readFile, readlink, rename, rm, symlink, unlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { MINUTE_MS } from '../../../../../common/durations.js';
import { DataDirectoryView } from '../../../../../testing/data-directory.view.js';
import { GatedDisk } from '../../../../../testing/gated-disk.js';
import { anUploadDraft, storeUpload } from '../../../../../testing/upload-draft.builder.js';
import { MIB } from '../../../../../common/sizes.js';
import type { EventOutbox, OutboxEvent } from '../../../../application/ports/event-outbox.port.js';
import { LocalDiskFileStorage, type LocalDiskOptions } from '../local-disk.file-storage.adapter.js';

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}$/;

let view: DataDirectoryView;
let storage: LocalDiskFileStorage;
let outbox: EventOutbox;
let warnings: string[];
beforeEach(async () => {
  view = new DataDirectoryView(await mkdtemp(join(tmpdir(), 'events-')));
  warnings = [];
  await open();
});
afterEach(async () => {
  vi.useRealTimers();
  await storage.close();
  await rm(view.directory, { recursive: true });
});

async function open(options: Partial<LocalDiskOptions> = {}): Promise<void> {
  storage = await LocalDiskFileStorage.open({ directory: view.directory, logger: { warn: (message) => warnings.push(message) }, ...options });
  outbox = storage.eventOutbox;
}

async function reopen(): Promise<void> {
  await storage.close();
  await open();
  await outbox.open();
}

const store = async (draft = anUploadDraft()): Promise<string> => (await storeUpload(storage, draft.build())).uploadId;
const idOf = (event: OutboxEvent): string => (event.type === 'stored' ? event.upload.uploadId : `${event.uploadId}-removed`);

async function deliver(limit = 500): Promise<string[]> {
  const batch = await outbox.next(limit);
  await batch?.confirm();
  return batch?.events.map(idOf) ?? [];
}

async function deliverAll(): Promise<string[]> {
  const delivered: string[] = [];
  for (let ids = await deliver(); ids.length > 0; ids = await deliver()) delivered.push(...ids);
  return delivered;
}

function failToOpen(disk: GatedDisk, isUnreadable: (path: string) => boolean): void {
  disk.gate = (perform, operation, target) => (operation === 'open' && isUnreadable(target) ? Promise.reject(new Error('EIO')) : perform());
}

const entries = (): Promise<string[]> => readdir(view.at('events'));
const entry = async (name: string): Promise<unknown> => JSON.parse(await readlink(view.at(`events/${name}`)));
const segments = async (): Promise<string[]> => (await view.files('uploads')).map((path) => basename(path, '.ndjson'));

describe('the outbox on a local disk', () => {
  it('keeps nothing before it is opened, and then one entry for each segment', async () => {
    await store();
    expect(await readdir(view.directory)).not.toContain('events');
    const [before] = await segments();
    await outbox.open();
    expect(await entries()).toEqual([]);
    await store();
    await store();
    await store(anUploadDraft().with({ kind: 'nowcast' }));
    expect((await entries()).sort()).toEqual((await segments()).filter((id) => id !== before).sort());
  });

  it('moves the offset of an entry as its lines are confirmed, and removes it once its segment is closed and confirmed', async () => {
    await outbox.open();
    const first = await store();
    await store();
    const [segment = ''] = await segments();
    const [path = ''] = await view.files('uploads');
    expect(await entry(segment)).toEqual({ lines: path, offset: 0 });
    expect(await deliver(1)).toEqual([first]);
    expect(await entry(segment)).toEqual({ lines: path, offset: (await readFile(view.at(path), 'utf8')).indexOf('\n') + 1 });
    await deliverAll();
    expect(await entry(segment)).toEqual({ lines: path, offset: (await lstat(view.at(path))).size });
    await reopen();
    expect(await deliverAll()).toEqual([]);
    expect(await entries()).toEqual([]);
  });

  it('delivers up to 256 KiB of lines in one batch, even after a line that is not valid', async () => {
    await outbox.open();
    const ids: string[] = [];
    for (const length of [10, 100_000, 10, 40_000, 40_000, 40_000, 50_000]) ids.push(await store(anUploadDraft().with({ additionalData: 'x'.repeat(length) })));
    await storage.close();
    const [path = ''] = await view.files('uploads');
    await writeFile(view.at(path), `{}\n${await readFile(view.at(path), 'utf8')}`);
    await open();
    expect(await deliver()).toEqual(ids.slice(0, 6));
    expect(await deliver()).toEqual(ids.slice(6));
    expect(warnings).toEqual([expect.stringContaining('has a line that is not valid')]);
  });

  it('leaves a long line to the next batch without reading all of it', async () => {
    await outbox.open();
    const [short, long] = [await store(), await store(anUploadDraft().with({ additionalData: 'x'.repeat(8 * MIB) }))];
    await storage.close();
    const disk = new GatedDisk();
    await open({ disk });
    let reads = 0;
    disk.gate = (perform, operation) => {
      if (operation === 'file.read') reads += 1;
      return perform();
    };
    expect(await deliver(1)).toEqual([short]);
    expect(reads).toBe(1);
    expect(await deliver()).toEqual([long]);
    const another = await store();
    const next = await store(anUploadDraft().with({ additionalData: 'x'.repeat(8 * MIB) }));
    reads = 0;
    expect(await deliver()).toEqual([another]);
    // One finds the short line. Three, of 64, 128 and 256 KiB, find no end of the long one.
    expect(reads).toBe(4);
    expect(await deliver()).toEqual([next]);
  });

  it('records events while nobody delivers them, in a process that never opens it', async () => {
    await outbox.open();
    await storage.close();
    await open();
    const id = await store();
    await reopen();
    expect(await deliverAll()).toEqual([id]);
  });

  it('delivers the events of segments in the order of their creation', async () => {
    await outbox.open();
    const ids: string[] = [];
    for (let day = 1; day < 6; day++) {
      ids.push(await store(anUploadDraft().with({ kind: day % 2 ? 'nowcast' : 'historical', receivedAt: new Date(`2026-01-0${day}T00:00:00Z`) })));
    }
    expect(await deliverAll()).toEqual(ids);
  });

  it('keeps a copy of nothing but ids, kind, customer and times of what was removed, until its event is confirmed', async () => {
    await outbox.open();
    const secret = anUploadDraft().with({ customerId: 'the customer', filename: 'the file', additionalData: 'the data', idempotencyKey: 'the key', manufacturer: 'the meter' });
    const { uploadId: id, receivedAt } = await storeUpload(storage, secret.file('the bytes').build());
    await storage.storedUploads.remove(id);
    const [name = ''] = (await entries()).filter((each) => each.endsWith('.removed'));
    const line = JSON.parse(await readFile(view.at(`events/${name}`), 'utf8')) as object;
    expect(line).toEqual({ upload_id: id, kind: 'historical', customer_id: 'the customer', received_at: receivedAt.toISOString(), removed_at: expect.stringMatching(/Z$/) as string });
    expect(await deliverAll()).toEqual([`${id}-removed`]);
    await reopen();
    await deliverAll();
    expect(await entries()).toEqual([]);
  });

  it('delivers the time at which an interrupted removal began, not that of its completion', async () => {
    vi.useFakeTimers({ toFake: ['Date'] });
    await storage.close();
    const disk = new GatedDisk();
    await open({ disk });
    await outbox.open();
    const uploadId = await store();
    const removedAt = new Date();
    disk.failNext('rename', /\.ndjson$/);
    await expect(storage.storedUploads.remove(uploadId)).rejects.toThrow();
    vi.setSystemTime(Date.now() + MINUTE_MS);
    expect(await storage.storedUploads.remove(uploadId)).toBe(true);
    expect((await outbox.next(10))?.events).toMatchObject([{ type: 'removed', uploadId, removedAt }]);
  });

  it('removes the entry of a segment with the last upload of the segment, even if nobody delivers events', async () => {
    await outbox.open();
    const uploadId = await store();
    const [segment = ''] = await segments();
    expect(await entries()).toContain(segment);
    await storage.storedUploads.remove(uploadId);
    expect(await entries()).not.toContain(segment);
  });

  it('leaves out no upload when one before it, which was delivered, is removed from their segment', async () => {
    await outbox.open();
    const [first, second, third, last] = [await store(), await store(), await store(), await store()];
    expect(await deliver(2)).toEqual([first, second]);
    await storage.storedUploads.remove(first);
    expect((await deliverAll()).sort()).toEqual([`${first}-removed`, third, last].sort());
  });

  it('delivers the removal of 1,200 uploads in batches, and goes on after a restart', async () => {
    await outbox.open();
    const ids = await Promise.all(Array.from({ length: 1_200 }, () => store()));
    await storage.storedUploads.removeAll({});
    const delivered = [...(await deliver()), ...(await deliver())];
    await reopen();
    delivered.push(...(await deliverAll()));
    expect(delivered.sort()).toEqual(ids.map((id) => `${id}-removed`).sort());
  });

  it('removes the entry of a segment that is gone', async () => {
    await outbox.open();
    await store();
    await store(anUploadDraft().with({ kind: 'nowcast' }));
    await storage.close();
    await unlink(view.at((await view.files('uploads'))[0] ?? ''));
    await open();
    expect(await deliverAll()).toHaveLength(1);
    expect(await entries()).toEqual([]);
    expect(warnings).toEqual([]);
  });

  it('removes the entry of a segment whose uploads were all removed, without a warning', async () => {
    await outbox.open();
    await store();
    await storage.close();
    const [path = ''] = await view.files('uploads');
    await writeFile(view.at(path), '');
    await open();
    expect(await deliverAll()).toEqual([]);
    expect(await entries()).toEqual([]);
    expect(warnings).toEqual([]);
  });

  it('delivers other events beside a directory in place of its file of removed uploads, with a warning', async () => {
    await outbox.open();
    await storage.storedUploads.remove(await store());
    const [name = ''] = (await entries()).filter((each) => each.endsWith('.removed'));
    await unlink(view.at(`events/${name}`));
    await mkdir(view.at(`events/${name}`));
    const id = await store();
    expect(await deliverAll()).toEqual([id]);
    await reopen();
    expect(await deliverAll()).toEqual([]);
    expect(new Set(warnings)).toEqual(new Set([`${view.at(`events/${name}`)} is not a file of this store, so the events of its uploads are not delivered.`]));
  });

  it('skips lines that are not valid, with one warning, and delivers the others', async () => {
    await outbox.open();
    const first = await store();
    await storage.close();
    const [path = ''] = await view.files('uploads');
    const line = await readFile(view.at(path), 'utf8');
    const second = `${first.slice(0, -4)}abcd`;
    for (const text of ['no JSON\n', '{}\n', line.replace(/"customer_id":"[^"]*",/, ''), line.replace('historical', 'other'), line.replace(first, second)]) await appendFile(view.at(path), text);
    await open();
    expect(await deliver(1)).toEqual([first]);
    const batch = await outbox.next(1);
    expect(batch?.events.map(idOf)).toEqual([second]);
    expect((await outbox.next(1))?.events.map(idOf)).toEqual([second]);
    expect(await deliverAll()).toEqual([second]);
    expect(warnings).toEqual([expect.stringContaining('has a line that is not valid, so its event is not delivered')]);
    expect(await entries()).toEqual([]);
  });

  it('skips lines of removed uploads that are not valid, with one warning, and delivers the others', async () => {
    await outbox.open();
    const id = await store();
    await storage.storedUploads.remove(id);
    await storage.close();
    const [name = ''] = (await entries()).filter((each) => each.endsWith('.removed'));
    const line = await readFile(view.at(`events/${name}`), 'utf8');
    for (const member of ['received_at', 'removed_at', 'kind']) await appendFile(view.at(`events/${name}`), line.replace(new RegExp(`"${member}":"[^"]*"`), `"${member}":"x"`));
    await open();
    expect(await deliverAll()).toEqual([`${id}-removed`]);
    expect(warnings).toEqual([expect.stringContaining('has a line that is not valid, so its event is not delivered')]);
  });

  it.each<[string, (path: string) => Promise<unknown>]>([
    ['is no JSON', (path) => symlink('x', path)],
    ['names another segment', (path) => symlink(JSON.stringify({ lines: 'uploads/kind=nowcast/date=2026-01-01/x.ndjson', offset: 3 }), path)],
    ['leads out of the store', (path) => symlink(JSON.stringify({ lines: '../../etc/passwd', offset: 0 }), path)],
    ['has no valid offset', (path) => symlink(JSON.stringify({ lines: 'x', offset: -1 }), path)],
    ['is a file', (path) => writeFile(path, '')],
  ])('delivers all events of a segment again if its entry %s, with a warning', async (_, damage) => {
    await outbox.open();
    const ids = [await store(), await store()];
    await deliver(1);
    await storage.close();
    const [segment = ''] = await segments();
    await unlink(view.at(`events/${segment}`));
    await damage(view.at(`events/${segment}`));
    await open();
    expect(await deliverAll()).toEqual(ids);
    expect(warnings).toEqual([expect.stringContaining('is damaged; the events of')]);
    expect(await entries()).toEqual([]);
  });

  it('delivers the events of other files while one of them cannot be read, and its own a minute after it can be', async () => {
    vi.useFakeTimers({ toFake: ['performance'] });
    await outbox.open();
    const unreadable = await store();
    const [path = ''] = await view.files('uploads');
    await storage.close();
    const disk = new GatedDisk();
    await open({ disk });
    await outbox.open();
    const others = [await store(), await store(anUploadDraft().with({ kind: 'nowcast' }))];
    failToOpen(disk, (target) => target === view.at(path));
    expect(outbox.unreadableSince).toBeUndefined();
    expect((await deliverAll()).sort()).toEqual(others.sort());
    const since = outbox.unreadableSince;
    expect(since).toBeInstanceOf(Date);
    vi.advanceTimersByTime(MINUTE_MS);
    const later = await store();
    expect(await deliverAll()).toEqual([later]);
    expect(outbox.unreadableSince).toBe(since);
    expect(warnings).toEqual([expect.stringMatching(new RegExp(`^Reading the events of .*/events/${basename(path, '.ndjson')} failed`))]);
    disk.gate = (perform) => perform();
    expect(await deliverAll()).toEqual([]);
    vi.advanceTimersByTime(MINUTE_MS);
    expect(await deliverAll()).toEqual([unreadable]);
    expect(outbox.unreadableSince).toBeUndefined();
  });

  it('delivers other events while the file of a batch that was not confirmed cannot be read, with one warning', async () => {
    vi.useFakeTimers({ toFake: ['performance'] });
    await outbox.open();
    const unconfirmed = await store();
    const [path = ''] = await view.files('uploads');
    await storage.close();
    const disk = new GatedDisk();
    await open({ disk });
    await outbox.open();
    expect((await outbox.next(500))?.events.map(idOf)).toEqual([unconfirmed]);
    failToOpen(disk, (target) => target === view.at(path));
    expect(await deliverAll()).toEqual([]);
    const others = [await store(), await store(anUploadDraft().with({ kind: 'nowcast' }))];
    expect((await deliverAll()).sort()).toEqual(others.sort());
    expect(warnings).toEqual([expect.stringMatching(new RegExp(`^Reading the events of .*/events/${basename(path, '.ndjson')} failed`))]);
    disk.gate = (perform) => perform();
    vi.advanceTimersByTime(MINUTE_MS);
    expect(await deliverAll()).toEqual([unconfirmed]);
  });

  it('fails when more than ten files cannot be read, and delivers all of them when they can be', async () => {
    vi.useFakeTimers({ toFake: ['performance'] });
    await outbox.open();
    const ids: string[] = [];
    for (let segment = 0; segment < 12; segment++) {
      ids.push(await store());
      await reopen();
    }
    await storage.close();
    const disk = new GatedDisk();
    await open({ disk });
    failToOpen(disk, (target) => target.endsWith('.ndjson'));
    await expect(deliver()).rejects.toThrow('The events could not be read.');
    expect(warnings).toHaveLength(10);
    disk.gate = (perform) => perform();
    vi.advanceTimersByTime(MINUTE_MS);
    expect(await deliverAll()).toEqual(ids);
  });

  it('leaves foreign names in its directory alone, with one warning for each', async () => {
    await outbox.open();
    const foreign = ['notes.txt', '.snapshot', '0195e6f0-0000-7000-8000-000000000000', '0195e6f0-0000-7000-8000-000000000000.removed.bak'];
    for (const name of foreign) await writeFile(view.at(`events/${name}`), 'x');
    const directories = ['lost+found', '0195e6f0-0000-7000-8000-000000000001.unfinished'];
    for (const name of directories) await mkdir(view.at(`events/${name}`));
    for (let count = 0; count < 3; count++) {
      const id = await store();
      expect(await deliverAll()).toEqual([id]);
      await reopen();
    }
    expect(new Set(warnings).size).toBe(foreign.length + directories.length);
    expect((await entries()).filter((name) => !UUID.test(name)).sort()).toEqual([...directories, ...foreign.filter((name) => !UUID.test(name))].sort());
  });

  it('accepts uploads beside something else with the name events, with a warning', async () => {
    await storage.close();
    await writeFile(view.at('events'), 'x');
    await open();
    await store();
    expect(warnings).toEqual([expect.stringContaining('is not a directory, so uploads are stored without events')]);
    await expect(outbox.open()).rejects.toMatchObject({ kind: 'storage-failure' });
    await store();
    expect(await outbox.next(1)).toBeUndefined();
  });

  it('refuses uploads whose events it could not record while its directory is away, and accepts uploads when it is back', async () => {
    await outbox.open();
    const first = await store();
    await rename(view.at('events'), view.at('aside'));
    await expect(storage.checkHealth()).rejects.toMatchObject({ kind: 'storage-failure' });
    await expect(store()).rejects.toMatchObject({ kind: 'storage-failure' });
    await expect(outbox.next(1)).rejects.toMatchObject({ kind: 'storage-failure' });
    expect(warnings.join('\n')).toContain(`${view.at('events')} is missing`);
    await rename(view.at('aside'), view.at('events'));
    await expect.poll(() => storage.checkHealth().then(() => 'healthy', () => 'away'), { timeout: 5_000 }).toBe('healthy');
    const second = await store();
    expect(await deliverAll()).toEqual([first, second]);
  });

  it('removes no upload while its directory is away, because the events that follow in the segment would be lost', async () => {
    await outbox.open();
    const [first, second, third] = [await store(), await store(), await store()];
    expect(await deliver(2)).toEqual([first, second]);
    await rename(view.at('events'), view.at('aside'));
    await expect(storage.storedUploads.remove(first)).rejects.toMatchObject({ kind: 'storage-failure' });
    await rename(view.at('aside'), view.at('events'));
    await expect.poll(() => storage.checkHealth().then(() => 'healthy', () => 'away'), { timeout: 5_000 }).toBe('healthy');
    await storage.storedUploads.remove(first);
    expect(await deliverAll()).toContain(third);
  });

  it('keeps the entries of segments whose volume is away', async () => {
    await outbox.open();
    const id = await store();
    await reopen();
    await rename(view.at('uploads'), view.at('aside'));
    await expect(outbox.next(1)).rejects.toMatchObject({ kind: 'storage-failure' });
    await rename(view.at('aside'), view.at('uploads'));
    await expect.poll(() => storage.checkHealth().then(() => 'healthy', () => 'away'), { timeout: 5_000 }).toBe('healthy');
    expect(await deliverAll()).toEqual([id]);
  });

  it('costs an upload no operation of the disk', async () => {
    await storage.close();
    const counts: number[] = [];
    for (const isOpened of [false, true]) {
      const disk = new GatedDisk();
      await open({ disk });
      if (isOpened) await outbox.open();
      await store();
      let operations = 0;
      disk.gate = (perform) => {
        operations += 1;
        return perform();
      };
      await store();
      await store(anUploadDraft().file('bytes'));
      counts.push(operations);
      await storage.close();
    }
    expect(counts[1]).toBe(counts[0]);
    await open();
  });

  it('removes entries and files that a crash left unfinished', async () => {
    await outbox.open();
    const id = await store();
    await storage.close();
    const [segment = ''] = await segments();
    await symlink('{}', view.at(`events/${segment}.unfinished`));
    await writeFile(view.at('events/0195e6f0-0000-7000-8000-000000000000.removed.unfinished'), 'x');
    await open();
    expect(await deliverAll()).toEqual([id]);
    expect(await entries()).toEqual([]);
    expect(warnings).toEqual([]);
  });

  it('lists its directory rarely while there is a backlog', async () => {
    await outbox.open();
    for (let day = 10; day < 30; day++) await store(anUploadDraft().with({ receivedAt: new Date(`2026-01-${day}T00:00:00Z`) }));
    await storage.close();
    const disk = new GatedDisk();
    await open({ disk });
    let listings = 0;
    disk.gate = (perform, operation, path) => {
      if (operation === 'readLargeDirectory' && path === view.at('events')) listings += 1;
      return perform();
    };
    expect(await deliverAll()).toHaveLength(20);
    expect(listings).toBe(1);
  });

  it('delivers uploads of one kind, and removals, while uploads of the other kind never end', async () => {
    await outbox.open();
    const removed = await store();
    await deliver();
    const nowcast = await store(anUploadDraft().with({ kind: 'nowcast' }));
    const delivered: string[] = [];
    const deliverBesideOthers = async (times: number) => {
      for (let time = 0; time < times; time++) {
        await store();
        delivered.push(...(await deliver(1)));
      }
    };
    await deliverBesideOthers(3);
    expect(delivered).toContain(nowcast);
    await storage.storedUploads.remove(removed);
    await deliverBesideOthers(10);
    expect(delivered).toContain(`${removed}-removed`);
  });

  it('delivers a batch again if the store went away and came back before the batch was confirmed', async () => {
    await outbox.open();
    const id = await store();
    const batch = await outbox.next(1);
    await rename(view.at('events'), view.at('aside'));
    await expect(batch?.confirm()).rejects.toMatchObject({ kind: 'storage-failure' });
    await rename(view.at('aside'), view.at('events'));
    await expect.poll(() => storage.checkHealth().then(() => 'healthy', () => 'away'), { timeout: 5_000 }).toBe('healthy');
    await batch?.confirm();
    expect(await deliverAll()).toEqual([id]);
  });

  it('confirms a batch when it is tried again, after a first attempt that failed', async () => {
    await storage.close();
    const disk = new GatedDisk();
    await open({ disk });
    await outbox.open();
    await store();
    const second = await store();
    const batch = await outbox.next(1);
    disk.failNext('rename');
    await expect(batch?.confirm()).rejects.toMatchObject({ kind: 'storage-failure' });
    await batch?.confirm();
    expect(await deliverAll()).toEqual([second]);
  });

  it('delivers everything after its directory could not be listed once', async () => {
    await outbox.open();
    const id = await store();
    await storage.close();
    const disk = new GatedDisk();
    await open({ disk });
    disk.failNext('readLargeDirectory');
    await expect(outbox.next(1)).rejects.toMatchObject({ kind: 'storage-failure' });
    expect(await deliverAll()).toEqual([id]);
  });

  it('refuses to open while its directory is a link to something that is away', async () => {
    await storage.close();
    await symlink('nowhere', view.at('events'));
    await expect(open()).rejects.toThrow(`${view.at('events')} is a symbolic link to nothing: make the directory that it names, or remove it`);
    await rm(view.at('events'));
    await open();
  });
});
