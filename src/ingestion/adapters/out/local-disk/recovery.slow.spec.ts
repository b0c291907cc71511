import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { appendFile, cp, lstat, mkdir, mkdtemp, readdir, readFile, rm, symlink, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, dirname, join, relative } from 'node:path';
import { promisify } from 'node:util';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { MIB } from '../../../../common/sizes.js';
import { DataDirectoryView } from '../../../../testing/data-directory.view.js';
import { GatedDisk } from '../../../../testing/gated-disk.js';
import { anUploadDraft, storeUpload } from '../../../../testing/upload-draft.builder.js';
import type { UploadDraft } from '../../../application/ports/file-storage.port.js';
import type { Upload } from '../../../domain/upload.js';
import type { Disk } from './disk.js';
import { encodeRecord, newEpoch, stampRecord } from './journal.js';
import { LocalDiskFileStorage } from './local-disk.file-storage.adapter.js';

/** The bytes of a file that is too large for a journal, so the file is written to `staging/`. */
const LARGE = 'bytes '.repeat(3_000);
const GOOD = '{"upload_id":"0197-good","content_path":null}\n';

describe('recovery', () => {
  let base: string;
  let view: DataDirectoryView;
  let disk: GatedDisk;
  let storage: LocalDiskFileStorage;
  let warnings: string[];

  const open = async (disk?: Disk, maxSegmentBytes?: number) => {
    storage = await LocalDiskFileStorage.open({
      directory: view.directory,
      logger: { warn: (message) => warnings.push(message) },
      ...(disk && { disk }),
      ...(maxSegmentBytes && { maxSegmentBytes }),
    });
  };

  const storeJson = (count: number): Promise<Upload[]> =>
    Promise.all(Array.from({ length: count }, () => storeUpload(storage, anUploadDraft().build())));

  const idsOf = (uploads: Upload[]) => uploads.map(({ uploadId }) => uploadId).sort();
  const idsOfLines = async () => (await view.lines()).map((line) => line.upload_id).sort();

  /**
   * Stores two uploads without a file, then stops the disk, as a crash would. Returns the absolute path of the segment
   * with their two lines, and its text.
   */
  const dieWithTwoLines = async (): Promise<{ segment: string; text: string }> => {
    await storeJson(2);
    await disk.die();
    const [path] = await view.files('uploads');
    const segment = view.at(path ?? '');
    return { segment, text: await readFile(segment, 'utf8') };
  };

  /**
   * Stops the disk, as a crash would, after the file of an upload was renamed to its final path, and before the
   * upload's index line is written.
   */
  const dieBeforeLine = async () => {
    const draft = anUploadDraft().file(LARGE).build();
    const ended = disk.holdNext('rename');
    void storage.store(draft);
    await ended.reached;
    const flushing = disk.holdNext('file.write');
    ended.release();
    await flushing.reached;
    await disk.die();
    return draft;
  };

  beforeEach(async () => {
    warnings = [];
    base = await mkdtemp(join(tmpdir(), 'recovery-'));
    view = new DataDirectoryView(join(base, 'data'));
    disk = new GatedDisk();
    await open(disk);
  });
  afterEach(async () => {
    await storage.close();
    await disk.die();
    await rm(base, { recursive: true });
  });

  it.each<[string, string | Buffer]>([
    ['nothing', ''],
    ['half a line', '{"upload_id":"0197'],
    ['a line without its newline', GOOD.trimEnd()],
    ['NULs', Buffer.alloc(5000)],
    ['NULs and a newline', `${'\0'.repeat(5000)}\n`],
    ['garbage of several lines', '\n\x07}{\n"upload_id"\n\n'],
    ['an empty line', '\n'],
    ['JSON that is not an object', '42\n'],
    ['null', 'null\n'],
    ['an array', '["upload_id"]\n'],
    ['an object without an id', '{"kind":"nowcast"}\n'],
    ['an id that is not a string', '{"upload_id":7}\n'],
    ['bytes that are not UTF-8', Buffer.from('{"upload_id":"\xff"}\n', 'latin1')],
    ['an intact line after NULs', `${'\0'.repeat(4096)}\n${GOOD}`],
    ['many intact lines after a torn one', `{"upload\n${GOOD.repeat(10_000)}`],
    ['the start of a long line', `{"upload_id":"0197","additional_data":"${'x'.repeat(5 * MIB)}`],
    ['a long line with a hole', `{"upload_id":"0197","additional_data":"${'x\n'.repeat(2 * MIB)}"}\n`],
    ['a long line of NULs with a valid end', `${'\0'.repeat(3 * MIB)}"}\n`],
  ])('cuts a segment back to its last intact line: %s', async (_, tail) => {
    const { segment, text } = await dieWithTwoLines();
    await appendFile(segment, tail);

    await open();

    expect(await readFile(segment, 'utf8')).toBe(text);
    await storeJson(1);
    expect(await view.files('uploads')).toHaveLength(2);
    expect(await view.lines()).toHaveLength(3);
    expect(warnings).toEqual([]);
  });

  it.each([
    ['short lines', GOOD.repeat(100_000)],
    ['a long line', `{"upload_id":"0197","additional_data":"${'x'.repeat(5 * MIB)}"}\n`],
    ['lines that each fill a batch', `{"upload_id":"0197","additional_data":"${'x'.repeat(MIB)}"}\n`.repeat(5)],
  ])('cuts off no intact lines: %s', async (_, lines) => {
    const { segment, text } = await dieWithTwoLines();
    await appendFile(segment, lines);
    await open();
    expect((await readFile(segment, 'utf8')) === text + lines).toBe(true);
  });

  it('finds a torn batch of the largest size, even with many intact lines before it and in it', async () => {
    const { segment } = await dieWithTwoLines();
    const before = GOOD.repeat(Math.floor((3 * MIB) / GOOD.length));
    await writeFile(segment, before + '\0'.repeat(100) + '\n' + GOOD.repeat(Math.floor((MIB - 101) / GOOD.length)));
    await open();
    expect((await readFile(segment, 'utf8')) === before).toBe(true);
  });

  it.each([
    ['empty', ''],
    ['completely torn', '{"upload_id":'],
  ])('removes a segment that is %s', async (_, text) => {
    const { segment } = await dieWithTwoLines();
    await writeFile(segment, text);
    await open();
    expect(await view.files('uploads')).toEqual([]);
  });

  it('cuts a segment to the length in its marker, even if the rest looks intact', async () => {
    const { segment, text } = await dieWithTwoLines();
    await appendFile(segment, GOOD);
    await remark(segment, { durable_length: Buffer.byteLength(text) });
    await open();
    expect(await readFile(segment, 'utf8')).toBe(text);
  });

  it('never makes a segment longer', async () => {
    const { segment, text } = await dieWithTwoLines();
    await remark(segment, { durable_length: text.length + 100 });
    await open();
    expect(await readFile(segment, 'utf8')).toBe(text);
  });

  const remark = async (segment: string, more: object) => {
    const [marker = ''] = await view.files('pending');
    await rm(view.at(marker));
    await symlink(JSON.stringify({ segment: segment.slice(view.directory.length + 1), ...more }), view.at(marker));
  };

  it('removes a file that has no line', async () => {
    await storeJson(1);
    await dieBeforeLine();
    expect(await view.contentPaths()).toHaveLength(1);
    await open();
    expect(await view.contentPaths()).toEqual([]);
    expect(await view.lines()).toHaveLength(1);
  });

  it('makes its findings and repairs durable before it removes the markers', async () => {
    await storeJson(1);
    // Markers are handled in the order of their ids, which begin with the time in milliseconds.
    const storedAt = Date.now();
    await expect.poll(() => Date.now()).toBeGreaterThan(storedAt);
    const draft = await dieBeforeLine();
    const [segment = ''] = await view.files('uploads');
    await appendFile(view.at(segment), 'torn');
    const operations: string[] = [];
    const recording = new GatedDisk();
    recording.gate = (perform, operation, path) => {
      operations.push(`${operation} ${relative(view.directory, path)}`);
      return perform();
    };
    await open(recording);
    const path = draft.content?.path ?? '';
    expect(operations.slice(operations.indexOf(`openWritable ${segment}`))).toEqual([
      `openWritable ${segment}`,
      `file.size ${segment}`,
      `file.read ${segment}`,
      `file.truncate ${segment}`,
      `file.sync ${segment}`,
      `file.close ${segment}`,
      `remove pending/${basename(segment, '.ndjson')}`,
      `readLink pending/${draft.uploadId}`,
      `readDirectory ${dirname(segment)}`,
      `open ${segment}`,
      `file.read ${segment}`,
      `file.close ${segment}`,
      `remove ${path}`,
      `syncDirectory ${dirname(path)}`,
      `remove pending/${draft.uploadId}`,
      'readDirectory staging',
      'syncDirectory staging',
      'syncDirectory pending',
      'open store-id',
      'file.size store-id',
      'file.read store-id',
      'file.close store-id',
    ]);
  });

  it('finds the keys of all lines written before a crash', async () => {
    const keyed = (idempotencyKey: string) => anUploadDraft().with({ idempotencyKey }).file(idempotencyKey).build();
    const receipts = await Promise.all(['a', 'b'].map((key) => storage.store(keyed(key))));
    await storeJson(1);
    await disk.die();
    await open();
    for (const [index, key] of ['a', 'b'].entries()) {
      expect(await storage.store(keyed(key))).toEqual({ ...receipts[index], replayed: true });
    }
    expect(await storage.store(keyed('c'))).not.toHaveProperty('replayed', true);
  });

  /**
   * Makes removals of markers hang. Returns a function for the marker of a given upload. The promise of that function
   * resolves when the upload is about to remove the marker, which means that the upload's index line is durable.
   */
  const keepMarkers = () => {
    const { gate } = disk;
    const waiting = new Map<string, () => void>();
    disk.gate = (perform, operation, path) => {
      const aboutToRemove = operation === 'remove' ? waiting.get(basename(path)) : undefined;
      if (!aboutToRemove) return gate(perform, operation, path);
      aboutToRemove();
      return new Promise(() => undefined);
    };
    return ({ uploadId }: UploadDraft) => new Promise<void>((resolve) => waiting.set(uploadId, resolve));
  };

  it('keeps a file whose line is in a later segment than the one open at the time', async () => {
    await storage.close();
    await open(disk, 1);
    await storeJson(1);
    const draft = anUploadDraft().file(LARGE).build();
    const indexed = keepMarkers()(draft);
    const held = disk.holdNext('rename');
    void storage.store(draft);
    await held.reached;
    await storeJson(1);
    await storeJson(1);
    held.release();
    await indexed;
    await disk.die();
    expect(await view.files('uploads')).toHaveLength(4);

    await open();
    expect(await view.contentPaths()).toEqual([draft.content?.path]);
    expect(await idsOfLines()).toContain(draft.uploadId);
  });

  it('keeps a file whose line is in a segment that was being created', async () => {
    const draft = anUploadDraft().file(LARGE).build();
    const indexed = keepMarkers()(draft);
    const making = disk.holdNext('createSynchronized');
    const first = storage.store(anUploadDraft().build());
    await making.reached;
    const marked = disk.holdNext('rename');
    void storage.store(draft);
    await marked.reached;
    making.release();
    await first;
    marked.release();
    await indexed;
    await disk.die();
    expect(await view.files('uploads')).toHaveLength(1);

    await open();
    expect(await view.contentPaths()).toEqual([draft.content?.path]);
    expect(await view.lines()).toHaveLength(2);
  });

  it.each([
    ['in one segment', 1e6],
    ['each in its own segment', 1],
  ])('keeps all files that have lines, %s', async (_, maxSegmentBytes) => {
    await storage.close();
    await open(disk, maxSegmentBytes);
    const paths: unknown[] = [];
    const indexed = keepMarkers();
    for (let count = 0; count < 3; count++) {
      const draft = anUploadDraft().file(LARGE).build();
      paths.push(draft.content?.path);
      const there = indexed(draft);
      void storage.store(draft);
      await there;
    }
    await disk.die();
    await open();
    expect(await view.contentPaths()).toEqual(paths);
    expect(await view.lines()).toHaveLength(3);
  });

  it('finds the line of a file among lines that are longer than one read', async () => {
    const draft = anUploadDraft()
      .with({ additionalData: 'x'.repeat(2 * MIB) })
      .file(LARGE)
      .build();
    const indexed = keepMarkers()(draft);
    const held = disk.holdNext('rename');
    void storage.store(draft);
    await held.reached;
    for (const length of [3 * MIB, MIB - 1, 1]) {
      await storage.store(anUploadDraft().with({ additionalData: 'x'.repeat(length) }).build());
    }
    held.release();
    await indexed;
    await disk.die();
    await open();
    expect(await view.contentPaths()).toEqual([draft.content?.path]);
  });

  it('reads only the end of a segment, even to find the line of a file', async () => {
    await storage.store(anUploadDraft().with({ additionalData: 'x'.repeat(20 * MIB) }).build());
    for (let count = 0; count < 3; count++) {
      await storage.store(anUploadDraft().with({ additionalData: 'x'.repeat(MIB) }).build());
    }
    await dieBeforeLine();
    const counting = new GatedDisk();
    await open(counting);
    expect(counting.bytesRead).toBeLessThan(5 * MIB);
    expect(await view.lines()).toHaveLength(4);
  });

  it('removes a file whose whole line is in a torn end', async () => {
    await storeJson(1);
    const draft = await dieBeforeLine();
    const [segment = ''] = await view.files('uploads');
    await appendFile(view.at(segment), `torn\n{"upload_id":"${draft.uploadId}"}\n`);
    await open();
    expect(await view.contentPaths()).toEqual([]);
  });

  it('removes markers whose file, segment or day is missing', async () => {
    await storeJson(1);
    await dieBeforeLine();
    for (const name of ['uploads', 'files']) await rm(view.at(name), { recursive: true });
    await open();
    expect(await view.files('pending')).toEqual([]);
    expect(warnings).toEqual([]);
  });

  it('empties staging, whatever it contains', async () => {
    await storage.close();
    await mkdir(view.at('staging/directory/in/it'), { recursive: true });
    await writeFile(view.at('staging/directory/file'), 'bytes');
    await writeFile(view.at('staging/file'), 'bytes');
    await open();
    expect(await view.files('.')).toEqual(['store-id', 'uploads.lock']);
  });

  it('leaves everything in pending that is not a marker, and logs a warning', async () => {
    await storage.close();
    await writeFile(view.at('pending/file'), 'text');
    await symlink('elsewhere', view.at('pending/link'));
    await open();
    expect(await view.files('pending')).toEqual(['pending/file', 'pending/link']);
    expect(warnings).toEqual([
      `${view.at('pending/file')} is not a marker of this store; leaving it alone.`,
      `${view.at('pending/link')} is not a marker of this store; leaving it alone.`,
    ]);
  });

  it('removes a marker that a crash left unfinished, but not a directory with such a name', async () => {
    await storage.close();
    const id = '0197d0a0-0000-7000-8000-000000000001';
    await symlink(JSON.stringify({ segment: `uploads/kind=historical/date=2026-01-01/${id}.ndjson` }), view.at(`pending/${id}.unfinished`));
    await mkdir(view.at('pending/directory.unfinished'));
    await open();
    expect(await readdir(view.at('pending'))).toEqual(['directory.unfinished']);
    expect(warnings).toEqual([`${view.at('pending/directory.unfinished')} is not a regular file. It is left alone.`]);
  });

  it('leaves a name in pending that is not UTF-8, and logs a warning', async () => {
    await storage.close();
    const name = Buffer.from([0x66, 0xff]);
    await symlink('elsewhere', Buffer.concat([Buffer.from(`${view.at('pending')}/`), name]));
    await open();
    expect(await readdir(view.at('pending'), { encoding: 'buffer' })).toEqual([name]);
    expect(warnings).toEqual([expect.stringContaining('is not a marker of this store; leaving it alone.')]);
  });

  describe("leaves everything that is not the store's", () => {
    const DAY = 'uploads/kind=historical/date=2026-01-01';
    const UUID = '0197d0a0-0000-7000-8000-000000000001';
    const SEGMENT = `${DAY}/${UUID}.ndjson`;
    const CONTENT = `files/kind=historical/customer_id=c/date=2026-01-01/${UUID}.csv`;
    let outside: string;

    beforeEach(async () => {
      await storage.close();
      outside = join(base, 'outside');
      await writeFile(outside, 'somebody\'s');
    });

    it.each<[string, unknown]>([
      ['a file outside the directory', { content_path: '../outside', segment: SEGMENT, offset: 0 }],
      ['a file outside the directory, through the layout', { content_path: `files/../../outside`, segment: SEGMENT, offset: 0 }],
      ['an absolute path', { content_path: '/outside', segment: SEGMENT, offset: 0 }],
      ['a file of another part', { content_path: 'identity/identity.db', segment: SEGMENT, offset: 0 }],
      ['a file of another upload', { content_path: CONTENT.replace('01.csv', '02.csv'), segment: SEGMENT, offset: 0 }],
      ['a NUL', { content_path: `${CONTENT}\0`, segment: SEGMENT, offset: 0 }],
      ['a segment outside the directory', { segment: '../outside' }],
      ['a segment outside the directory, for a file', { content_path: CONTENT, segment: '../outside', offset: 0 }],
      ['a negative length', { segment: SEGMENT, durable_length: -1 }],
      ['an offset that is not a number', { content_path: CONTENT, segment: SEGMENT, offset: '0' }],
      ['no segment', { content_path: CONTENT, offset: 0 }],
      ['a number', 42],
      ['null', null],
      ['an array', []],
    ])('when a marker contains %s', async (_, marker) => {
      await symlink(JSON.stringify(marker), view.at(`pending/${UUID}`));
      await open();
      expect(await readFile(outside, 'utf8')).toBe('somebody\'s');
      expect(warnings).toEqual([expect.stringContaining(view.at(`pending/${UUID}`))]);
    });

    it.each([
      ['the file of a marker', CONTENT],
      ['the segment of a marker', SEGMENT],
    ])('when a link leads %s out of DATA_DIR', async (_, path) => {
      await mkdir(join(base, 'elsewhere'));
      await writeFile(join(base, 'elsewhere', basename(path)), 'somebody\'s');
      await mkdir(dirname(dirname(view.at(path))), { recursive: true });
      await symlink(join(base, 'elsewhere'), dirname(view.at(path)));
      const marker = path === CONTENT ? { content_path: path, segment: SEGMENT, offset: 0 } : { segment: path, durable_length: 0 };
      await symlink(JSON.stringify(marker), view.at(`pending/${UUID}`));
      await open();
      expect(await readFile(join(base, 'elsewhere', basename(path)), 'utf8')).toBe('somebody\'s');
      expect(warnings).toEqual([expect.stringContaining(view.at(`pending/${UUID}`))]);
    });

    it.each([
      ['by its path', '../outside'],
      ['through the layout', 'files/../../outside'],
      ['by a link', CONTENT],
    ])('when the record of a journal leads out of DATA_DIR %s', async (_, path) => {
      await mkdir(dirname(dirname(view.at(CONTENT))), { recursive: true });
      await symlink(base, dirname(view.at(CONTENT)));
      const linked = join(base, basename(CONTENT));
      await writeFile(linked, 'somebody\'s');
      const record = encodeRecord({ uploadId: UUID, marker: { content_path: path, segment: SEGMENT, offset: 0 }, bytes: Buffer.from('bytes') });
      stampRecord(record, newEpoch());
      await writeFile(view.at(`pending/${UUID}.journal`), record);
      await open();
      for (const file of [outside, linked]) expect(await readFile(file, 'utf8')).toBe('somebody\'s');
    });

    const fifo = (path: string) => promisify(execFile)('mkfifo', [path]);
    const directory = async (path: string) => {
      await mkdir(join(path, 'in'), { recursive: true });
    };
    const link = (path: string) => symlink('/nowhere', path);
    const random = (path: string) => writeFile(path, randomBytes(9_000).fill(7, 0, 1));

    it.each<[string, string, (path: string) => Promise<unknown>]>([
      ['a directory as Spark leaves it', `${DAY}/_temporary`, directory],
      ['a directory as a segment', SEGMENT, directory],
      ['a link to nothing as a segment', SEGMENT, link],
      ['a FIFO as a segment', SEGMENT, fifo],
      ['a directory as a journal', `pending/${UUID}.journal`, directory],
      ['a FIFO as a journal', `pending/${UUID}.journal`, fifo],
      ['random bytes as a journal', `pending/${UUID}.journal`, random],
      ['a directory as a marker', `pending/${UUID}`, directory],
      ['a FIFO as a marker', `pending/${UUID}`, fifo],
      ['a directory as the file of an upload', CONTENT, directory],
    ])('when it is %s, and logs one warning that names it', async (_, path, make) => {
      await mkdir(view.at(DAY), { recursive: true });
      await mkdir(dirname(view.at(path)), { recursive: true });
      await make(view.at(path));
      // This marker makes recovery list the day's directory of index lines, and read the segments there.
      const other = UUID.replace('8000', '9000');
      const marked = path === CONTENT ? UUID : other;
      const marker = { content_path: CONTENT.replace(UUID, marked), segment: `${DAY}/0${UUID.slice(1)}.ndjson`, offset: 0 };
      await symlink(JSON.stringify(marker), view.at(`pending/${marked}`)).catch((error: unknown) => {
        if (path !== `pending/${marked}`) throw error;
      });
      await open();
      expect(warnings).toEqual([expect.stringContaining(view.at(path))]);
      expect(await view.files('staging')).toEqual([]);
      await lstat(view.at(path));
      await storeJson(1);
    });
  });

  it('takes the same number of operations for a thousand uploads as for one', async () => {
    const recoveryBehind = async (rounds: number, perRound: number) => {
      view = new DataDirectoryView(join(base, `data-${rounds}`));
      disk = new GatedDisk();
      await open(disk, 20_000);
      for (let round = 0; round < rounds; round++) await storeJson(perRound);
      const segments = await view.files('uploads');
      await dieBeforeLine();

      const operations: string[] = [];
      const counting = new GatedDisk();
      counting.gate = (perform, operation, path) => {
        operations.push(operation.startsWith('open') ? `open ${path}` : operation);
        return perform();
      };
      await open(counting);
      const opened = operations.filter((operation) => operation.startsWith('open'));
      expect(new Set(opened)).toEqual(new Set([`open ${view.at(segments.at(-1) ?? '')}`, `open ${view.at('store-id')}`]));
      await storage.close();
      return { operations: operations.length, segments: segments.length, bytes: counting.bytesRead };
    };

    const one = await recoveryBehind(1, 1);
    const thousand = await recoveryBehind(125, 8);
    expect(one.segments).toBe(1);
    expect(thousand.segments).toBeGreaterThan(10);
    expect(thousand.operations).toBe(one.operations);
    expect(thousand.bytes).toBeLessThan(25_000);
  });

  it.each(['fails', 'dies'])('can be repeated when one of its operations %s', async (how) => {
    const small = await storeUpload(storage, anUploadDraft().file('small').build());
    const kept = [...(await storeJson(2)), small];
    const lost = await dieBeforeLine();
    await truncate(view.at(small.content?.path ?? ''), 0);
    const [segment = ''] = await view.files('uploads');
    const torn = `${'\0'.repeat(100)}\n{"upload_id":"${lost.uploadId}"`;
    await appendFile(view.at(segment), torn);
    await writeFile(view.at('staging/leftover'), 'bytes');
    const original = view.directory;

    const cutShort = async (nth: number): Promise<boolean> => {
      view = new DataDirectoryView(join(base, `copy-${nth}`));
      await cp(original, view.directory, { recursive: true, verbatimSymlinks: true });
      disk = new GatedDisk();
      const fault = { count: 0, reached: false };
      const stopped = new Promise<void>((stop) => {
        disk.gate = (perform) => {
          if (++fault.count !== nth && !(fault.reached && how === 'dies')) return perform();
          fault.reached = true;
          if (how === 'fails') return Promise.reject(new Error(`EIO: operation ${nth}`));
          stop();
          return new Promise(() => undefined);
        };
      });
      const opening = open(disk).catch((error: unknown) => error);
      const outcome = await Promise.race([opening, stopped]);
      if (fault.reached && how === 'fails') expect(outcome).toMatchObject({ message: `EIO: operation ${nth}` });
      await disk.die();

      await open();
      expect(await idsOfLines()).toEqual(idsOf(kept));
      expect(await view.contentPaths()).toEqual([small.content?.path]);
      expect(await readFile(view.at(small.content?.path ?? ''), 'utf8')).toBe('small');
      expect(await view.files('staging')).toEqual([]);
      expect(await view.files('pending')).toEqual([]);
      await storage.close();
      return fault.reached;
    };

    let operations = 0;
    while (await cutShort(operations + 1)) operations += 1;
    expect(operations).toBeGreaterThan(20);
  });

  it('cuts a segment that ends in the middle of a line', async () => {
    const { segment, text } = await dieWithTwoLines();
    await truncate(segment, text.length - 5);
    await open();
    expect(await readFile(segment, 'utf8')).toBe(text.slice(0, text.indexOf('\n') + 1));
  });

  describe('of small files', () => {
    const storeSmall = (...texts: string[]) =>
      Promise.all(texts.map((text) => storeUpload(storage, anUploadDraft().file(text).build())));
    const pathOf = (upload: Upload | undefined) => view.at(upload?.content?.path ?? '');
    const journals = async () => (await view.files('pending')).filter((path) => path.endsWith('.journal')).map((path) => view.at(path));

    it.each<[string, (path: string) => Promise<unknown>]>([
      ['intact', () => Promise.resolve()],
      ['missing', (path) => rm(path)],
      ['missing with its directory', (path) => rm(dirname(path), { recursive: true })],
      ['empty', (path) => truncate(path, 0)],
      ['cut short', (path) => truncate(path, 3)],
      ['too long', (path) => appendFile(path, 'more')],
      ['changed', (path) => writeFile(path, 'two__')],
    ])('restores an acknowledged file that is %s', async (_, damage) => {
      const uploads = await storeSmall('one', 'two!!', '', 'four');
      await disk.die();
      await damage(pathOf(uploads[1]));
      await open();
      expect(await Promise.all(uploads.map((upload) => readFile(pathOf(upload), 'utf8')))).toEqual(['one', 'two!!', '', 'four']);
      expect(await view.files('pending')).toEqual([]);
      expect(await view.files('staging')).toEqual([]);
      expect(warnings).toEqual([]);
    });

    it.each<[string, (path: string) => Promise<unknown>]>([
      ['intact', () => Promise.resolve()],
      ['missing', (path) => rm(path)],
      ['cut short', (path) => truncate(path, 3)],
    ])('keeps a file whose segment was moved away, even if the file is %s, and logs a warning', async (_, damage) => {
      await storeJson(1);
      const [upload] = await storeSmall('bytes');
      await disk.die();
      await damage(pathOf(upload));
      const [segment = ''] = await view.files('uploads');
      await rm(view.at(segment));
      await open();
      expect(await view.contentPaths()).toEqual([upload?.content?.path]);
      expect(await readFile(pathOf(upload), 'utf8')).toBe('bytes');
      expect(warnings).toEqual([expect.stringContaining(upload?.content?.path ?? '-')]);
    });

    it('needs no write permission for an intact file', async () => {
      await storeSmall('bytes');
      await disk.die();
      const [segment = ''] = await view.files('uploads');
      const written: string[] = [];
      const recording = new GatedDisk();
      recording.gate = (perform, operation, path) => {
        if (operation === 'openWritable') written.push(relative(view.directory, path));
        return perform();
      };
      await open(recording);
      expect(written).toEqual([segment]);
    });

    it('makes a file durable before it removes the journal', async () => {
      const [upload] = await storeSmall('bytes');
      await disk.die();
      await rm(pathOf(upload));
      const [journal = ''] = await journals();
      const operations: string[] = [];
      const recording = new GatedDisk();
      recording.gate = (perform, operation, path) => {
        operations.push(`${operation} ${path}`);
        return perform();
      };
      await open(recording);
      const end = [`file.sync ${pathOf(upload)}`, `syncDirectory ${dirname(pathOf(upload))}`, `remove ${journal}`];
      expect(operations.filter((operation) => end.includes(operation))).toEqual(end);
    });

    it.each([
      ['before the file existed', 'create'],
      ['before its line was written', 'file.write'],
    ] as const)('removes a file when the crash came %s, and keeps the others', async (_, operation) => {
      const [kept] = await storeSmall('kept');
      const flushed = disk.holdNext('file.standsAt');
      const lost = anUploadDraft().file('lost').build();
      void storage.store(lost);
      await flushed.reached;
      const held = disk.holdNext(operation);
      flushed.release();
      await held.reached;
      if (operation === 'file.write') {
        // The first write is that of the file's own bytes; the second is that of the index line.
        const line = disk.holdNext('file.write');
        held.release();
        await line.reached;
      }
      await disk.die();
      await open();
      expect(await view.contentPaths()).toEqual([kept?.content?.path]);
      expect(await view.lines()).toHaveLength(1);
      expect(await view.files('pending')).toEqual([]);
    });

    it.each([
      ['torn', (journal: Buffer) => journal.fill(0, journal.indexOf('lost') + 2)],
      ['changed', (journal: Buffer) => journal.fill('L', journal.indexOf('lost'), journal.indexOf('lost') + 1)],
      ['cut short', (journal: Buffer) => journal.subarray(0, journal.indexOf('lost') + 2)],
    ])('uses the whole records of a journal whose last record is %s', async (_, damage) => {
      const [kept] = await storeSmall('kept');
      const flushing = disk.holdNext('file.standsAt');
      void storage.store(anUploadDraft().file('lost').build());
      await flushing.reached;
      await disk.die();
      await rm(pathOf(kept));
      const [journal = ''] = await journals();
      await writeFile(journal, damage(await readFile(journal)));
      await open();
      expect(await readFile(pathOf(kept), 'utf8')).toBe('kept');
      expect(await view.contentPaths()).toHaveLength(1);
      expect(await view.files('pending')).toEqual([]);
    });

    it('keeps an intact file whose record in the journal was changed', async () => {
      const [kept] = await storeSmall('kept');
      await disk.die();
      const [journal = ''] = await journals();
      const bytes = await readFile(journal);
      await writeFile(journal, bytes.fill('K', bytes.indexOf('kept'), bytes.indexOf('kept') + 1));
      await open();
      expect(await readFile(pathOf(kept), 'utf8')).toBe('kept');
    });

    it('ignores records that an earlier use of the journal left in it', async () => {
      await storage.close();
      storage = await LocalDiskFileStorage.open({ directory: view.directory, disk, maxJournalBytes: 1_500 });
      // After four index lines, all offsets in journal records have four digits, so all records have the same length.
      const { length: linesAlone } = await storeJson(4);
      const [zeroth, first] = [await storeSmall('upload 0'), await storeSmall('upload 1')].flat();
      const [journal = ''] = await journals();
      const placeIn = async (text: string) => (await readFile(journal)).indexOf(text);
      const place = await placeIn('upload 0');
      let last: Upload | undefined;
      let count = 2;
      for (; (await placeIn('upload 0')) >= 0; count++) [last] = await storeSmall(`upload ${count}`);
      expect(await placeIn('upload 1')).toBeGreaterThan(0);
      expect(await placeIn(`upload ${count - 1}`)).toBe(place);
      await disk.die();
      for (const upload of [zeroth, first, last]) await rm(pathOf(upload));
      await open();
      expect(await view.contentPaths()).toHaveLength((await view.lines()).length - linesAlone - 2);
      expect(await readFile(pathOf(last), 'utf8')).toMatch(/^upload /);
    });
  });
});
