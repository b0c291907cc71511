import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { appendFile, cp, mkdir, mkdtemp, readdir, readFile, rename, rm, symlink, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import Database from 'libsql';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { DataDirectoryView } from '../../../../testing/data-directory.view.js';
import { GatedDisk } from '../../../../testing/gated-disk.js';
import { anUploadDraft, storeUpload } from '../../../../testing/upload-draft.builder.js';
import { MIB } from '../../../../common/sizes.js';
import type { UploadDraft } from '../../../application/ports/file-storage.port.js';
import { indexLine } from '../../../domain/layout.js';
import { LocalDiskFileStorage } from './local-disk.file-storage.adapter.js';
import { DamagedDatabaseError } from './self-checking-database.js';

const NOON = Date.parse('2025-06-10T12:00:00Z');
const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const TODAY = '2025-06-10.db';

describe('idempotency keys on the local disk', () => {
  let base: string;
  let view: DataDirectoryView;
  let disk: GatedDisk;
  let storage: LocalDiskFileStorage;
  let warnings: string[];

  const open = async (maxSegmentBytes = MIB) => {
    disk = new GatedDisk();
    const logger = { warn: (message: string) => warnings.push(message) };
    storage = await LocalDiskFileStorage.open({ directory: view.directory, disk, logger, maxSegmentBytes });
  };
  const reopen = async (): Promise<void> => {
    await storage.close();
    await open();
  };

  const draft = (idempotencyKey: string): UploadDraft =>
    anUploadDraft().with({ idempotencyKey, receivedAt: new Date() }).file(`bytes of ${idempotencyKey}`).build();
  const store = (key: string) => storage.store(draft(key));
  const expectKept = async (...keys: string[]): Promise<void> => {
    for (const key of keys) expect(await store(key)).toMatchObject({ replayed: true });
  };
  const databases = async () => (await readdir(view.at('idempotency'))).sort();

  const setClock = (time: number): void => {
    vi.setSystemTime(time);
  };

  beforeEach(async () => {
    vi.useFakeTimers({ toFake: ['Date'], now: NOON });
    warnings = [];
    base = await mkdtemp(join(tmpdir(), 'idempotency-keys-'));
    view = new DataDirectoryView(join(base, 'data'));
    await open();
  });
  afterEach(async () => {
    await storage.close();
    expect(disk.openFiles).toEqual([]);
    await disk.die();
    vi.useRealTimers();
    await rm(base, { recursive: true });
  });

  describe('when the clock passes midnight or jumps during an upload', () => {
    it.each([
      ['it passes to the next day', 15 * HOUR],
      ['it jumps three days ahead', 3 * DAY],
      ['it goes back to the previous day', -15 * HOUR],
      ['it jumps three days back', -3 * DAY],
    ])('keeps the key: %s', async (_, jump) => {
      await store('before');
      const late = draft('late');
      const first = await storage.store({
        ...late,
        conclude: async (stored) => {
          setClock(NOON + jump);
          return { ...(await late.conclude(stored)), receivedAt: new Date() };
        },
      });
      expect(await store('late')).toEqual({ ...first, replayed: true });
      await reopen();
      expect(await store('late')).toEqual({ ...first, replayed: true });
      expect(await view.lines()).toHaveLength(2);
    });

    it('finds all keys of the last 24 hours once it is right again', async () => {
      await store('now');
      for (const jump of [3 * DAY, 30 * DAY, -3 * DAY, -30 * DAY]) {
        setClock(NOON + jump);
        await store(`at ${jump}`);
        setClock(NOON);
        await expectKept('now');
        await reopen();
        await expectKept('now');
      }
    });

    it('keeps the key of a line with a future date', async () => {
      setClock(NOON + 3 * DAY);
      await store('future');
      await reopen();
      setClock(NOON);
      await expectKept('future');
    });

    it('frees a key after 24 hours, and replays the second upload from then on', async () => {
      const first = await store('k');
      setClock(NOON + DAY - 1);
      expect(await store('k')).toEqual({ ...first, replayed: true });
      setClock(NOON + DAY);
      const second = await store('k');
      expect(second.replayed).toBe(false);
      expect(await store('k')).toEqual({ ...second, replayed: true });
      await reopen();
      expect(await store('k')).toEqual({ ...second, replayed: true });
    });

    it('removes databases, even damaged ones, a week after their keys have expired, and nothing else', async () => {
      await store('old');
      await reopen();
      await writeFile(view.at(`idempotency/${TODAY}.damaged-1`), '');
      await mkdir(view.at('idempotency/2025-06-09.db.damaged-1'));
      await writeFile(view.at('idempotency/notes.txt'), '');
      // Eight days later, the databases must still be there, so that a clock that jumps ahead by a few days and back
      // causes no rebuild.
      setClock(NOON + 8 * DAY);
      await store('during the week');
      expect(await databases()).toEqual(expect.arrayContaining([TODAY, `${TODAY}.damaged-1`]));
      setClock(NOON + 10 * DAY);
      await store('new');
      await storage.close();
      expect(await databases()).toEqual(['2025-06-09.db.damaged-1', '2025-06-18.db', '2025-06-20.db', 'notes.txt']);
      expect(warnings).toEqual([]);
    });
  });

  describe('damaged at rest', () => {
    const path = () => view.at(`idempotency/${TODAY}`);
    const overwrite = (from: number, to: number) => async () => {
      const bytes = await readFile(path());
      for (let at = Math.floor(bytes.length * from); at < bytes.length * to; at++) bytes[at] = (at * 7919) % 251;
      await writeFile(path(), bytes);
    };
    const inPlace = (make: () => Promise<unknown>) => async () => {
      await rm(path());
      await make();
    };
    /** Returns a function that flips a bit wherever a text occurs in the database file. SQLite can't detect that. */
    const change = (text: string) => async () => {
      const bytes = await readFile(path());
      for (let at = bytes.indexOf(text); at >= 0; at = bytes.indexOf(text, at + 1)) bytes.writeUInt8(bytes.readUInt8(at + text.length - 1) ^ 1, at + text.length - 1);
      await writeFile(path(), bytes);
    };

    /**
     * Returns a function that changes rows of the database by SQL. SQLite keeps no checksums that would detect that.
     */
    const execute = (sql: string) => () => {
      const database = new Database(path());
      database.exec(sql);
      database.close();
      return Promise.resolve();
    };
    let other: Database.Database | undefined;
    afterEach(() => {
      other?.close();
      other = undefined;
    });
    const lockByOther = () => {
      other = new Database(path());
      other.exec('BEGIN EXCLUSIVE');
      return Promise.resolve();
    };
    const UPLOADS = `FROM entries WHERE instr(record, CAST('"uploadId"' AS BLOB)) > 0`;

    it.each<[string, () => Promise<unknown>]>([
      ['random bytes', overwrite(0, 1)],
      ['random bytes behind the header', overwrite(0.3, 1)],
      ['truncated', () => truncate(path(), 5_000)],
      ['not a database', () => writeFile(path(), 'no database at all')],
      ['a directory', inPlace(() => mkdir(path()))],
      ['a dangling link', inPlace(() => symlink('/nowhere/at/all', path()))],
      ['a link to itself', inPlace(() => symlink(TODAY, path()))],
      ['a FIFO as its journal', () => promisify(execFile)('mkfifo', [`${path()}-journal`])],
      ['a directory as its log', () => mkdir(`${path()}-wal`)],
      ['a byte of a value', change('"size":1')],
      ['records removed', execute(`DELETE ${UPLOADS}`)],
      ['a record moved to another key', execute(`UPDATE entries SET record = (SELECT record ${UPLOADS} ORDER BY key DESC) WHERE key = (SELECT key ${UPLOADS} ORDER BY key)`)],
      ['another schema', execute('PRAGMA user_version = 3')],
      ['locked by another program', lockByOther],
    ])('is set aside with one warning and rebuilt: %s', async (_, damage) => {
      const keys = ['a', 'b', 'c'];
      for (const key of keys) await store(key);
      await storage.close();
      await damage();
      await open();
      await expectKept(...keys);
      expect(warnings).toEqual([expect.stringContaining(path())]);
      expect(await databases()).toContain(`${TODAY}.damaged-1`);
      await reopen();
      await expectKept(...keys);
      expect(warnings).toHaveLength(1);
    });

    it.each<[string, () => Promise<unknown>]>([
      ['an empty file', () => writeFile(path(), '')],
      ['random bytes in its log', () => writeFile(`${path()}-wal`, Buffer.alloc(20_000, 'log'))],
      ['random bytes in shared memory', () => writeFile(`${path()}-shm`, Buffer.alloc(32_768, 'shm'))],
      ['its removal', () => rm(path())],
      ['the removal of the whole directory', () => rm(view.at('idempotency'), { recursive: true })],
      ['a file in place of the directory', async () => {
        await rm(view.at('idempotency'), { recursive: true });
        await writeFile(view.at('idempotency'), '');
      }],
      ['a dangling link in place of the directory', async () => {
        await rm(view.at('idempotency'), { recursive: true });
        await symlink('/nowhere/at/all', view.at('idempotency'));
      }],
    ])('loses no key through %s', async (_, damage) => {
      await store('a');
      await storage.close();
      await damage();
      await open();
      await expectKept('a');
      await reopen();
      await expectKept('a');
    });

    describe('when five were set aside already', () => {
      const NUMBERS = [1, 2, 3, 4, 5];
      const fill = (path: string) => Promise.all(NUMBERS.map((number) => writeFile(`${path}.damaged-${number}`, 'kept')));
      beforeEach(async () => {
        await store('a');
        await storage.close();
      });

      it('is removed', async () => {
        await fill(path());
        await writeFile(path(), 'no database at all');
        await open();
        await expectKept('a');
        expect(warnings).toEqual([expect.stringContaining('It was removed, as there are damaged ones already')]);
        expect(await databases()).toEqual(expect.arrayContaining([TODAY, ...NUMBERS.map((number) => `${TODAY}.damaged-${number}`)]));
      });

      it('is still set aside if it is a directory, which may have contents', async () => {
        await fill(path());
        await rm(path());
        await mkdir(path());
        await writeFile(join(path(), 'contents'), '');
        await open();
        await expectKept('a');
        const aside = (await databases()).find((name) => name.length > `${TODAY}.damaged-1`.length);
        expect(await readdir(view.at(`idempotency/${aside}`))).toEqual(['contents']);
        expect(warnings).toEqual([expect.stringContaining(`It was renamed to ${aside}`)]);
      });

      it('is still set aside as a whole directory', async () => {
        await fill(view.at('idempotency'));
        await rm(view.at('idempotency'), { recursive: true });
        await writeFile(view.at('idempotency'), '');
        await open();
        await expectKept('a');
        expect(warnings).toContainEqual(expect.stringMatching(/It was renamed to idempotency\.damaged-.{36}, which may be removed/));
      });
    });

    it('is not considered damaged when too few file descriptors are left to open it', async () => {
      await store('a');
      await reopen();
      const openDatabase = vi.spyOn(disk, 'openDatabase').mockImplementation((path) => {
        // When file descriptors run out, SQLite reports the same error as for a damaged file.
        throw new DamagedDatabaseError(path, "it can't be opened");
      });
      disk.gate = (perform, operation) =>
        operation === 'open' ? Promise.reject(Object.assign(new Error('EMFILE: too many open files'), { code: 'EMFILE' })) : perform();
      await expect(store('a')).rejects.toMatchObject({ kind: 'storage-failure' });
      expect(await databases()).toEqual([TODAY]);
      openDatabase.mockRestore();
      disk.gate = (perform) => perform();
      await expectKept('a');
      expect(warnings).toEqual([]);
    });

    it('is brought up to date when it is older than the lines', async () => {
      await store('a');
      await storage.close();
      await cp(view.at('idempotency'), join(base, 'copy'), { recursive: true });
      await open();
      await store('b');
      await storage.close();
      await rm(view.at('idempotency'), { recursive: true });
      await rename(join(base, 'copy'), view.at('idempotency'));
      await open();
      await expectKept('a', 'b');
    });

    it.each<[string, readonly string[], 'stop' | 'kill']>([
      ['another segment of the day remains', ['other'], 'stop'],
      ['it was the only segment of the day', [], 'stop'],
      ['another segment of the day remains, after a kill', ['other'], 'kill'],
      ['it was the only segment of the day, after a kill', [], 'kill'],
    ])('forgets the keys of a segment that was removed while the service was stopped: %s', async (_, others, end) => {
      for (const key of others) await store(key);
      await reopen();
      await store('removed');
      await vi.waitUntil(() => existsSync(path()), { timeout: 10_000 });
      await (end === 'stop' ? storage.close() : disk.die());
      const segment = (await view.files('uploads')).at(-1) ?? '';
      await rm(view.at(segment));
      await open();
      // Stores an upload with another key first, so that the database of the day is open already when the removed key
      // is looked up.
      await store('new');
      expect(await store('removed')).toMatchObject({ replayed: false });
      await expectKept(...others, 'new', 'removed');
      expect(await view.lines()).toHaveLength(others.length + 2);
    });

    it('forgets the key of a line that was removed while the service was stopped', async () => {
      for (const key of ['kept', 'removed']) await store(key);
      await storage.close();
      const [segment = ''] = await view.files('uploads');
      const [kept = ''] = (await readFile(view.at(segment), 'utf8')).split('\n');
      await writeFile(view.at(segment), `${kept}\n`);
      await open();
      expect(await store('removed')).toMatchObject({ replayed: false });
      await expectKept('kept', 'removed');
      await reopen();
      await expectKept('kept', 'removed');
      expect(warnings).toEqual([expect.stringContaining('segments that it lists were removed or changed')]);
    });

    it('logs the progress of its rebuild every two seconds', async () => {
      for (const key of ['a', 'b', 'c']) await store(key);
      await storage.close();
      await rm(path());
      const logged: string[] = [];
      const logger = { warn: (message: string) => warnings.push(message), log: (message: string) => logged.push(message) };
      storage = await LocalDiskFileStorage.open({ directory: view.directory, disk, logger });
      let now = performance.now();
      const clock = vi.spyOn(performance, 'now').mockImplementation(() => (now += 1_100));
      try {
        await expectKept('a');
      } finally {
        clock.mockRestore();
      }
      expect(logged.length).toBeGreaterThanOrEqual(2);
      expect(logged[0]).toMatch(/^Reading idempotency keys from the index lines: \d+ of \d+ MiB\.$/);
      expect(logged.at(-1)).toMatch(/done, \d+ MiB in \d+ s\.$/);
    });

    it('is rebuilt from the segments of two days, and reads no older ones', async () => {
      for (const days of [3, 2, 1, 0]) {
        setClock(NOON - days * DAY);
        await reopen();
        await store(`${days} days old`);
      }
      await storage.close();
      await rm(view.at('idempotency'), { recursive: true });
      await open();
      const days = new Set<string | undefined>();
      const { gate } = disk;
      disk.gate = (perform, operation, at) => {
        if (operation === 'open' && at.endsWith('.ndjson')) days.add(/date=([^/]+)/.exec(at)?.[1]);
        return gate(perform, operation, at);
      };
      await expectKept('0 days old');
      expect([...days].sort()).toEqual(['2025-06-09', '2025-06-10']);
      expect(warnings).toEqual([expect.stringMatching(/2025-06-09\.db was missing\. .*: 1 keys\.$/), expect.stringMatching(/2025-06-10\.db was missing\. .*: 1 keys\.$/)]);
    });

    it('is rebuilt without parsing the lines that have no key', async () => {
      for (let line = 0; line < 20; line++) await storage.store(anUploadDraft().with({ receivedAt: new Date(), additionalData: '{"idempotency_key":"a"}' }).build());
      for (const key of ['a', 'b']) await store(key);
      await storage.close();
      await rm(view.at('idempotency'), { recursive: true });
      await open();
      const parse = vi.spyOn(JSON, 'parse');
      await expectKept('a', 'b');
      const lines = parse.mock.calls.filter(([text]) => text.includes('"upload_id":'));
      parse.mockRestore();
      expect(lines).toHaveLength(2);
    });

    it('is complete after a crash during its rebuild', async () => {
      await storage.close();
      await open(1);
      for (const key of ['a', 'b', 'c']) await store(key);
      await storage.close();
      await rm(view.at('idempotency'), { recursive: true });
      await open();
      let opened = 0;
      const { gate } = disk;
      const died = new Promise<void>((resolve) => {
        disk.gate = (perform, operation, at) => {
          if (operation !== 'open' || !at.endsWith('.ndjson') || opened++ === 0) return gate(perform, operation, at);
          resolve();
          return new Promise(() => undefined);
        };
      });
      void store('d');
      await died;
      await disk.die();
      await open();
      await expectKept('a', 'b', 'c');
    });

    it('ignores everything that is not a segment', async () => {
      await store('a');
      await storage.close();
      const day = view.at('uploads/kind=historical/date=2025-06-10');
      await mkdir(join(day, '_temporary'));
      await mkdir(join(day, 'directory.ndjson'));
      await symlink('/nowhere/at/all', join(day, 'link.ndjson'));
      await writeFile(join(day, 'part-0.parquet'), '');
      await writeFile(join(day, 'foreign.ndjson'), '{"idempotency_key":1}\nnull\n{"idempotency_key":\n');
      await writeFile(view.at('uploads/kind=historical/date=2025-06-09'), '');
      await rm(view.at('idempotency'), { recursive: true });
      await open();
      await expectKept('a');
      expect(await store('b')).toMatchObject({ replayed: false });
    });

    it('is rebuilt without a directory that is named like a segment, with a warning', async () => {
      await store('a');
      await storage.close();
      const foreign = join(dirname((await view.files('uploads'))[0] ?? ''), `${draft('x').uploadId}.ndjson`);
      await mkdir(view.at(foreign));
      await rm(view.at('idempotency'), { recursive: true });
      await open();
      await expectKept('a');
      expect(warnings).toContain(`${foreign} is not a regular file; skipping it.`);
    });

    it('skips a line that is far too long, and reads those after it', async () => {
      await store('a');
      await storage.close();
      const [segment = ''] = await view.files('uploads');
      const line = await readFile(view.at(segment));
      await writeFile(view.at(segment), Buffer.concat([Buffer.alloc(5 * MIB, 'x'), Buffer.from('\n'), line]));
      await rm(view.at('idempotency'), { recursive: true });
      await open();
      await expectKept('a');
      expect(warnings).toContainEqual(expect.stringMatching(/^\/.*\.ndjson has a long line that is not a line of the index/));
    });

    it('reads only the whole lines of a torn segment', async () => {
      const kept = await storeUpload(storage, draft('whole'));
      await disk.die();
      const [segment = ''] = await view.files('uploads');
      await appendFile(view.at(segment), indexLine({ ...kept, idempotencyKey: 'torn' }).slice(0, -5));
      await open();
      await expectKept('whole');
      expect(await store('torn')).toMatchObject({ replayed: false });
    });
  });

  describe('damaged while the service is running', () => {
    it('is rebuilt, and includes what is stored in the meantime', async () => {
      for (let index = 0; index < 300; index++) await store(`early ${index}`);
      await storage.close();
      await open();
      await expectKept('early 0');
      const path = view.at(`idempotency/${TODAY}`);
      const { length } = await readFile(path);
      await writeFile(path, Buffer.alloc(length, 'x'));
      const late = Array.from({ length: 20 }, (_, index) => `late ${index}`);
      const outcomes = await Promise.all([...late.map(store), ...Array.from({ length: 300 }, (_, index) => store(`early ${index}`))]);
      expect(outcomes.map(({ replayed }) => replayed)).toEqual([...late.map(() => false), ...Array<boolean>(300).fill(true)]);
      await reopen();
      await expectKept(...late, 'early 299');
      expect(await view.lines()).toHaveLength(320);
    });

    it('works without its directory, and has all keys after a restart', async () => {
      await store('a');
      await storage.close();
      await open();
      await expectKept('a');
      await rm(view.at('idempotency'), { recursive: true });
      await expectKept('a');
      await store('b');
      setClock(NOON + 15 * HOUR);
      await store('c');
      await reopen();
      await expectKept('a', 'b', 'c');
    });

    it.each([
      ['the database', `idempotency/${TODAY}`],
      ['the whole directory', 'idempotency'],
    ])('stores an upload under the key of a removed one, although someone has removed %s', async (_, path) => {
      const { uploadId } = await store('a');
      await store('b');
      await reopen();
      await expectKept('a');
      await rm(view.at(path), { recursive: true });
      expect(await storage.storedUploads.remove(uploadId)).toBe(true);
      expect(await store('a')).toMatchObject({ replayed: false });
      await expectKept('a', 'b');
      await reopen();
      await expectKept('a', 'b');
      expect(await view.lines()).toHaveLength(2);
    });

    it('does not list a segment whose last line was removed, so that nothing is set aside when its empty file is removed', async () => {
      const { uploadId } = await store('a');
      await reopen();
      await store('b');
      expect(await storage.storedUploads.remove(uploadId)).toBe(true);
      await reopen();
      await expectKept('b');
      expect(await store('a')).toMatchObject({ replayed: false });
      expect(await view.files('uploads')).toHaveLength(3);
      setClock(NOON + HOUR);
      await reopen();
      expect(await view.files('uploads')).toHaveLength(2);
      await expectKept('a', 'b');
      expect(warnings).toEqual([]);
    });

    it.each([
      ['that was set aside before', () => expectKept('a', 'b')],
      ['that is found damaged by the removal', () => Promise.resolve()],
    ])('leaves no damaged database with the key of a removed upload: one %s', async (_, use) => {
      const { uploadId } = await store('a');
      await store('b');
      await storage.close();
      const database = view.at(`idempotency/${TODAY}`);
      await writeFile(database, (await readFile(database)).fill(0, 0, 100));
      await open();
      await use();
      await writeFile(`${database}.damaged-5`, 'another');
      await mkdir(`${database}.damaged-4`);
      await writeFile(view.at('idempotency/2025-06-09.db.damaged-1'), 'of another day');
      expect(await storage.storedUploads.remove(uploadId)).toBe(true);
      expect(warnings).toEqual([expect.stringContaining(`It was renamed to ${TODAY}.damaged-`)]);
      expect((await databases()).filter((name) => name.includes('damaged'))).toEqual(['2025-06-09.db.damaged-1', `${TODAY}.damaged-4`]);
      expect(await store('a')).toMatchObject({ replayed: false });
      await expectKept('a', 'b');
    });

    it('lists a segment from which an upload is removed while another is in progress', async () => {
      const late = draft('late');
      let finish = (): void => undefined;
      const finishing = new Promise<void>((resolve) => (finish = resolve));
      const running = storage.store({ ...late, conclude: (stored) => finishing.then(() => late.conclude(stored)) });
      await expect.poll(() => store('late').catch((error: unknown) => error)).toMatchObject({ kind: 'request-in-progress' });
      await store('a');
      const { uploadId } = await storeUpload(storage, anUploadDraft().with({ receivedAt: new Date() }).file('without a key').build());
      expect(await storage.storedUploads.remove(uploadId)).toBe(true);
      finish();
      await running;
      await reopen();
      await expectKept('a', 'late');
      expect(warnings).toEqual([]);
    });

    it('is rebuilt once: after a restart, no lines are read again', async () => {
      await store('a');
      await storage.close();
      await rm(view.at('idempotency'), { recursive: true });
      await open();
      await expectKept('a');
      await reopen();
      const { bytesRead } = disk;
      await expectKept('a');
      expect(disk.bytesRead).toBe(bytesRead);
    });

    it('leaves a damaged database that was set aside when an upload without a key is removed', async () => {
      await store('a');
      const { uploadId } = await storeUpload(storage, anUploadDraft().with({ receivedAt: new Date() }).file('without a key').build());
      await storage.close();
      await writeFile(view.at(`idempotency/${TODAY}.damaged-1`), 'damaged');
      await open();
      expect(await storage.storedUploads.remove(uploadId)).toBe(true);
      expect(await databases()).toContain(`${TODAY}.damaged-1`);
      await expectKept('a');
    });

    it('does not delay uploads without a key during a rebuild', async () => {
      await store('a');
      await storage.close();
      await rm(view.at('idempotency'), { recursive: true });
      await open();
      const held = disk.holdNext('plainFileSize');
      const waiting = store('a');
      await held.reached;
      await storeUpload(storage, anUploadDraft().file('without a key').build());
      held.release();
      expect(await waiting).toMatchObject({ replayed: true });
    });

    it('contains no key of a line that was rolled back', async () => {
      await store('a');
      const failing = draft('failed');
      const cause = disk.failNext('file.sync', /[.]ndjson$/);
      await expect(storage.store(failing)).rejects.toMatchObject({ kind: 'storage-failure', cause });
      await rm(view.at('idempotency'), { recursive: true });
      await reopen();
      expect(await store('failed')).toMatchObject({ replayed: false });
    });
  });

  describe('while the store is missing', () => {
    const away = () => join(base, 'away');
    const expectRefused = (key: string) => expect(store(key)).rejects.toMatchObject({ kind: 'storage-failure' });
    const copyWithoutLogs = async (): Promise<void> => {
      await cp(away(), view.directory, { recursive: true });
      for (const name of await databases()) if (!name.endsWith('.db')) await rm(view.at(`idempotency/${name}`));
    };

    it('refuses a repeated request, and replays it once the store is back', async () => {
      await store('a');
      await reopen();
      await expectKept('a');
      await rename(view.directory, away());
      await expectRefused('a');
      await rename(away(), view.directory);
      await expectKept('a');
      expect(warnings).toEqual([expect.stringContaining('Uploads are refused'), expect.stringContaining('is back')]);
    });

    it.each(['uploads/kind=historical', 'files', 'files/kind=historical'])('refuses a repeated request while only %s/ is missing', async (part) => {
      await store('a');
      await expectKept('a');
      await rename(view.at(part), away());
      await expectRefused('a');
      await rename(away(), view.at(part));
      await expectKept('a');
    });

    it('touches no databases of another store in its place, even on another day', async () => {
      await store('a');
      await reopen();
      await expectKept('a');
      await rename(view.directory, away());
      await copyWithoutLogs();
      setClock(NOON + 30 * DAY);
      await expectRefused('b');
      expect(await databases()).toEqual([TODAY]);
    });

    it('does not consider a segment removed that vanished with the store during a rebuild', async () => {
      await store('a');
      await storage.close();
      await rm(view.at('idempotency'), { recursive: true });
      await open();
      const historical = view.at('uploads/kind=historical');
      let isAway = false;
      disk.gate = async (perform, operation, path) => {
        if (isAway) await rename(away(), view.directory);
        else if (operation === 'readDirectory' && path === historical) await rename(view.directory, away());
        isAway = !isAway && operation === 'readDirectory' && path === historical;
        return perform();
      };
      await expectRefused('a');
      disk.gate = (perform) => perform();
      expect(isAway).toBe(true);
      await rename(away(), view.directory);
      await expectKept('a');
    });

    it('is not reopened during close for a request that waited for a rebuild', async () => {
      await store('a');
      await storage.close();
      await rm(view.at('idempotency'), { recursive: true });
      await open();
      const held = disk.holdNext('plainFileSize');
      const waiting = expectRefused('a');
      await held.reached;
      const closing = storage.close();
      held.release();
      await Promise.all([waiting, closing]);
      await open();
      await expectKept('a');
    });
  });

  describe.each(['open', 'file.read'] as const)('while %s fails for a segment that is not listed', (failing) => {
    beforeEach(async () => {
      await store('a');
      await storage.close();
      await rm(view.at('idempotency'), { recursive: true });
      await open();
      disk.gate = (perform, operation, path) =>
        operation === failing && path.endsWith('.ndjson') ? Promise.reject(Object.assign(new Error('EIO: i/o error'), { code: 'EIO' })) : perform();
    });

    it('is unhealthy, because uploads with a key fail', async () => {
      await expect(storage.checkHealth()).rejects.toMatchObject({ kind: 'storage-failure' });
      await expect(store('a')).rejects.toMatchObject({ kind: 'storage-failure' });
      await expect(storage.checkHealth()).rejects.toMatchObject({ kind: 'storage-failure' });
    });

    it('is healthy again once it can be read, and has lost no key', async () => {
      await expect(store('a')).rejects.toMatchObject({ kind: 'storage-failure' });
      disk.gate = (perform) => perform();
      await storage.checkHealth();
      await expectKept('a');
    });
  });

  it.each(['open', 'file.read'])('is healthy while %s fails only for segments that are listed, because uploads with a key succeed', async (failing) => {
    await store('a');
    await reopen();
    disk.gate = (perform, operation, path) =>
      operation === failing && path.endsWith('.ndjson') ? Promise.reject(Object.assign(new Error('EIO: i/o error'), { code: 'EIO' })) : perform();
    await storage.checkHealth();
    await expectKept('a');
  });

  it('is not touched during boot', async () => {
    await store('a');
    await storage.close();
    await writeFile(view.at(`idempotency/${TODAY}`), 'damaged');
    const touched: string[] = [];
    const recording = new GatedDisk();
    recording.gate = (perform, operation, path) => {
      if (path.startsWith(view.at('idempotency'))) touched.push(operation);
      return perform();
    };
    disk = recording;
    storage = await LocalDiskFileStorage.open({ directory: view.directory, disk, logger: { warn: (message) => warnings.push(message) } });
    expect(touched).toEqual([]);
    expect(warnings).toEqual([]);
  });
});
