import { execFile } from 'node:child_process';
import { appendFileSync } from 'node:fs';
import { appendFile, chmod, copyFile, cp, mkdir, mkdtemp, readdir, readFile, rename, rm, symlink, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { v7 as uuidV7 } from 'uuid';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { DataDirectoryView } from '../../../../../testing/data-directory.view.js';
import { anUploadDraft, storeUpload } from '../../../../../testing/upload-draft.builder.js';
import { MIB } from '../../../../../common/sizes.js';
import { indexLine, segmentDirectory } from '../../../../domain/layout.js';
import type { Upload } from '../../../../domain/upload.js';
import { encodeRecord, newEpoch, stampRecord } from '../journal.js';
import { LocalDiskFileStorage } from '../local-disk.file-storage.adapter.js';
import { encodeRemovalLines } from '../stored-uploads/removal-list.js';
import { textReport } from '../../../../application/store-verification/report.js';
import { NoStoreError } from '../../../../application/store-verification/store-view.js';
import { openDirectory, verifyStore } from './directory-view.js';

const TIME = new Date('2026-03-01T10:00:00Z');
const SEGMENTS = 'uploads/kind=historical/date=2026-03-01';
const FILES = 'files/kind=historical/customer_id=customer-1/date=2026-03-01';
const logger = { warn: (): void => undefined };

/** A store with the uploads `file` and `json`. Each test changes a copy of it. */
let whole: string;
let base: string;
let view: DataDirectoryView;
/**
 * The stored upload with a file. Its index line is the first in `segment`, before that of `json`, the stored upload
 * without a file.
 */
let file: Upload & { content: NonNullable<Upload['content']> };
let json: Upload;
let segment: string;

beforeAll(async () => {
  whole = join(await mkdtemp(join(tmpdir(), 'verify-whole-')), 'data');
  const storage = await open(whole);
  const drafts = anUploadDraft().with({ receivedAt: TIME });
  file = (await storeUpload(storage, drafts.file('day,load\n', '1,2\n').build())) as typeof file;
  json = await storeUpload(storage, drafts.with({ additionalData: 'x' }).build());
  await storage.close();
  [segment = ''] = await new DataDirectoryView(whole).files('uploads');
});
afterAll(() => rm(dirname(whole), { recursive: true }));
beforeEach(async () => {
  base = await mkdtemp(join(tmpdir(), 'verify-'));
  view = new DataDirectoryView(join(base, 'data'));
  await cp(whole, view.directory, { recursive: true });
});
afterEach(() => rm(base, { recursive: true }));

const open = (directory = view.directory): Promise<LocalDiskFileStorage> => LocalDiskFileStorage.open({ directory, logger });

const at = (path: string): string => view.at(path);

async function found(options: { uploadsPerPass?: number } = {}) {
  const verification = verifyStore(view.directory, options);
  const findings = [];
  for await (const finding of verification) findings.push(finding);
  return { findings, totals: verification.totals };
}

/** The findings of a verification as sorted texts: `<state> <kind> <path>`. */
async function shown(options: { uploadsPerPass?: number } = {}): Promise<string[]> {
  return (await found(options)).findings.map(({ state, kind, path }) => `${state} ${kind} ${path}`).sort();
}

type Line = Record<string, unknown>;

/** Replaces the index line of the upload `file` by what `change` returns for the parsed line. */
async function changeLine(change: (line: Line) => Line | string | Buffer): Promise<void> {
  const bytes = await readFile(at(segment));
  const end = bytes.indexOf('\n');
  const changed = change(JSON.parse(bytes.toString('utf8', 0, end)) as Line);
  const line = typeof changed === 'string' || Buffer.isBuffer(changed) ? changed : JSON.stringify(changed);
  await writeFile(at(segment), Buffer.concat([Buffer.from(line as string), bytes.subarray(end)]));
}

const without = (line: Line, member: string): Line => Object.fromEntries(Object.entries(line).filter(([name]) => name !== member));

describe('a store at rest', () => {
  it('has no defects, and is counted', async () => {
    const totals = { uploads: 2, files: 1, bytes: 13, defects: 0, underWay: 0, unknown: 0 };
    expect(await found()).toEqual({ findings: [], totals });
  });

  it('has made all of its progress in the end, in bytes of the index', async () => {
    await mkdir(at(`${SEGMENTS}/foreign`));
    const verification = verifyStore(view.directory);
    for await (const finding of verification) expect(finding.path).toBe(`${SEGMENTS}/foreign`);
    const { length } = await readFile(at(segment));
    expect(verification.progress).toEqual({ phase: 'matching', done: length, total: length });
  });

  it('may contain everything that a client may send', async () => {
    const storage = await open();
    const drafts = anUploadDraft().with({ customerId: '../é/ ~\u{1F600}', filename: 'ü.TAR.GZ', manufacturer: '"\\' });
    await storage.store(drafts.file().build());
    await storage.store(drafts.with({ kind: 'nowcast', customerId: '..', filename: 'x' }).file(Buffer.alloc(1_500_000, 7)).build());
    await storage.store(drafts.with({ additionalData: '\u0000\u2028"\\é'.repeat(400_000) }).build());
    await storage.close();
    expect(await found()).toMatchObject({ findings: [], totals: { uploads: 5, files: 3 } });
  });

  it('may have additional members in its lines, and empty segments', async () => {
    await changeLine((line) => ({ ...line, idempotency_key: 'k', nested: [{ more: null }] }));
    await writeFile(at(`${SEGMENTS}/${uuidV7()}.ndjson`), '');
    expect(await shown()).toEqual([]);
  });

  it.each(['files/kind=historical', 'uploads/kind=historical', 'staging', 'pending'])('may have a link to a directory in place of %s', async (part) => {
    await rename(at(part), join(base, 'elsewhere'));
    await symlink(join(base, 'elsewhere'), at(part));
    expect(await found()).toMatchObject({ findings: [], totals: { uploads: 2, files: 1, bytes: 13 } });
  });

  it('is not changed by verification', async () => {
    const names = async (): Promise<string[]> => (await readdir(view.directory, { recursive: true })).sort();
    const before = await names();
    await found();
    expect(await names()).toEqual(before);
  });
});

describe('lines under one idempotency key', () => {
  const hours = (count: number) => ({ receivedAt: new Date(TIME.getTime() + count * 3_600_000) });

  it.each<[string, Partial<Upload>[], number]>([
    ['at the same time', [{}, {}], 1],
    ['23 hours apart', [{}, hours(23)], 1],
    ['23 hours apart, the later one first', [hours(-1), hours(-24)], 1],
    ['three within 24 hours', [{}, hours(1), hours(2)], 2],
    ['24 hours apart', [{}, hours(24), hours(48)], 0],
    ['of two customers', [{}, { customerId: 'customer-2' }], 0],
    ['of two kinds', [{}, { kind: 'nowcast' }], 0],
    ['of two keys', [{}, { idempotencyKey: 'other' }], 0],
    ['without a key', [{ idempotencyKey: null }, { idempotencyKey: null }], 0],
  ])('are defects when they are less than 24 hours apart: %s', async (_, changes, defects) => {
    for (const change of changes) {
      const upload: Upload = { ...json, uploadId: uuidV7(), idempotencyKey: 'k', ...change };
      const directory = at(segmentDirectory(upload.kind, upload.receivedAt));
      await mkdir(directory, { recursive: true });
      await writeFile(join(directory, `${uuidV7()}.ndjson`), `${indexLine(upload)}\n`);
    }
    for (const uploadsPerPass of [1, 1_000]) {
      const { findings } = await found({ uploadsPerPass });
      expect(findings.map(({ state, kind }) => `${state} ${kind}`)).toEqual(Array(defects).fill('defect key-duplicate'));
      expect(findings.every(({ detail }) => detail.startsWith('upload '))).toBe(true);
    }
  });
});

describe('each defect is found, and nothing else', () => {
  it.each<[string, () => Promise<unknown>, () => string[]]>([
    ['missing bytes', () => rm(at(file.content.path)), () => [`bytes-absent ${file.content.path}`]],
    ['bytes whose directories are missing', () => rm(at('files'), { recursive: true }), () => [`bytes-absent ${file.content.path}`]],
    ['truncated bytes', () => truncate(at(file.content.path), 12), () => [`bytes-size ${file.content.path}`]],
    ['extra bytes', () => appendFile(at(file.content.path), '\n'), () => [`bytes-size ${file.content.path}`]],
    ['changed bytes', () => writeFile(at(file.content.path), 'day,load\n1,3\n'), () => [`bytes-digest ${file.content.path}`]],
    [
      'a directory in place of bytes',
      async () => {
        await rm(at(file.content.path));
        await mkdir(at(file.content.path));
      },
      () => [`bytes-absent ${file.content.path}`, `name-unknown ${file.content.path}`],
    ],
    [
      'a symbolic link in place of bytes',
      async () => {
        await rename(at(file.content.path), join(base, 'elsewhere'));
        await symlink(join(base, 'elsewhere'), at(file.content.path));
      },
      () => [`bytes-absent ${file.content.path}`, `name-unknown ${file.content.path}`],
    ],
    [
      'a symbolic link to itself in place of bytes',
      async () => {
        await rm(at(file.content.path));
        await symlink(at(file.content.path), at(file.content.path));
      },
      () => [`bytes-absent ${file.content.path}`, `name-unknown ${file.content.path}`],
    ],
    [
      'a FIFO in place of bytes',
      async () => {
        await rm(at(file.content.path));
        await promisify(execFile)('mkfifo', [at(file.content.path)]);
      },
      () => [`bytes-absent ${file.content.path}`, `name-unknown ${file.content.path}`],
    ],
    [
      'a symbolic link in the path of bytes',
      async () => {
        await rename(at('files/kind=historical/customer_id=customer-1'), join(base, 'elsewhere'));
        await symlink(join(base, 'elsewhere'), at('files/kind=historical/customer_id=customer-1'));
      },
      () => [`bytes-absent ${file.content.path}`, 'name-unknown files/kind=historical/customer_id=customer-1'],
    ],
    [
      'a symbolic link in place of files/',
      async () => {
        await rename(at('files'), join(base, 'elsewhere'));
        await symlink(join(base, 'elsewhere'), at('files'));
      },
      () => [`bytes-absent ${file.content.path}`, 'name-unknown files'],
    ],
    ['a file without a line', () => copyFile(at(file.content.path), at(`${FILES}/00000000-0000-7000-8000-000000000000.csv`)), () => [`line-absent ${FILES}/00000000-0000-7000-8000-000000000000.csv`]],
    ['a copy with another extension', () => copyFile(at(file.content.path), at(`${FILES}/${file.uploadId}.bak`)), () => [`line-absent ${FILES}/${file.uploadId}.bak`]],
    ['a missing segment', () => rm(at(segment)), () => [`line-absent ${file.content.path}`]],
    ['a missing index', () => rm(at('uploads'), { recursive: true }), () => [`line-absent ${file.content.path}`]],
    ['a torn line', () => appendFile(at(segment), '{"upload_id":"'), () => [`line-torn ${segment}`]],
    ['a line without its newline', async () => truncate(at(segment), (await readFile(at(segment))).length - 1), () => [`line-torn ${segment}`]],
    ['an empty line', () => appendFile(at(segment), '\n'), () => [`line-malformed ${segment}`]],
    ['zeros without a marker', () => appendFile(at(segment), `${'\0'.repeat(100)}\n`), () => [`line-malformed ${segment}`]],
    ['two lines of one upload', async () => appendFile(at(segment), await readFile(at(segment))), () => [`line-duplicate ${segment}`, `line-duplicate ${segment}`]],
    ['a segment that exists twice', () => copyFile(at(segment), at(`${SEGMENTS}/copy.ndjson`)), () => [expect.stringMatching(/^line-duplicate /) as string, expect.stringMatching(/^line-duplicate /) as string]],
    ['an unknown name in uploads/', () => writeFile(at('uploads/README'), ''), () => ['name-unknown uploads/README']],
    ['an unknown kind', () => mkdir(at('uploads/kind=other')), () => ['name-unknown uploads/kind=other']],
    ['a day that does not exist', () => mkdir(at('uploads/kind=historical/date=2026-02-30')), () => ['name-unknown uploads/kind=historical/date=2026-02-30']],
    ['a segment of another name', () => writeFile(at(`${SEGMENTS}/x.ndjson.gz`), ''), () => [`name-unknown ${SEGMENTS}/x.ndjson.gz`]],
    ['a directory in place of a segment', () => mkdir(at(`${SEGMENTS}/x.ndjson`)), () => [`name-unknown ${SEGMENTS}/x.ndjson`]],
    ['a customer with a wrong encoding', () => mkdir(at('files/kind=nowcast/customer_id=%41'), { recursive: true }), () => ['name-unknown files/kind=nowcast/customer_id=%41']],
    ['a file whose name is not an upload id', () => writeFile(at(`${FILES}/notes.txt`), ''), () => [`name-unknown ${FILES}/notes.txt`]],
  ])('%s', async (_, breakStore, defects) => {
    await breakStore();
    expect(await shown()).toEqual(defects().map((defect) => (typeof defect === 'string' ? `defect ${defect}` : (expect.stringMatching(/^defect line-duplicate /) as string))));
  });
});

describe('a malformed line', () => {
  const orphaned = (): string[] => [`defect line-absent ${file.content.path}`];

  it.each<[string, (line: Line) => Line | string | Buffer, orphans?: boolean]>([
    ['invalid JSON', () => 'x', true],
    ['invalid UTF-8', (line) => Buffer.from(JSON.stringify(line).replace('Acme', '\u00e9'), 'latin1'), true],
    ['an array', () => '[]', true],
    ['null', () => 'null', true],
    ['a number', () => '7', true],
    ['an id of another form', (line) => ({ ...line, upload_id: 'x' })],
    ['an id with an escape', (line) => JSON.stringify({ ...line, upload_id: 'x' }).replace('"x"', '"f\\u00fc"')],
    ['an unknown kind', (line) => ({ ...line, kind: 'other' })],
    ["another kind than its directory's", (line) => ({ ...line, kind: 'nowcast', content_path: String(line.content_path).replace('historical', 'nowcast') }), true],
    ["another date than its directory's", (line) => ({ ...line, received_at: '2026-03-02T10:00:00.000Z' })],
    ['an invalid time', (line) => ({ ...line, received_at: '2026-03-01T25:00:00Z' })],
    ['a time without a zone', (line) => ({ ...line, received_at: '2026-03-01T10:00:00' })],
    ['additional_data that is an object', (line) => ({ ...line, additional_data: {} })],
    ['one content_ member that is null', (line) => ({ ...line, content_type: null })],
    ['only a path', (line) => ({ ...line, content_type: null, content_size: null, content_sha256: null })],
    ['a size that is a string', (line) => ({ ...line, content_size: '13' })],
    ['a negative size', (line) => ({ ...line, content_size: -1 })],
    ['a digest in upper case', (line) => ({ ...line, content_sha256: String(line.content_sha256).toUpperCase() })],
    ['a path outside files/', (line) => ({ ...line, content_path: '../elsewhere' }), true],
    ['a path that leads out of files/', (line) => ({ ...line, content_path: `files/../uploads/${String(line.upload_id)}` }), true],
    ["another customer's path", (line) => ({ ...line, customer_id: 'customer-2' })],
    ["another upload's path", (line) => ({ ...line, upload_id: uuidV7() })],
    ["another file's extension", (line) => ({ ...line, filename: 'load.xml' })],
    ['a customer that is not valid Unicode', (line) => JSON.stringify(line).replace('"customer-1"', '"\\ud800"')],
    ...['upload_id', 'kind', 'customer_id', 'filename', 'manufacturer', 'additional_data', 'received_at', 'content_type', 'content_size', 'content_sha256'].map(
      (member): [string, (line: Line) => Line] => [`no ${member}`, (line) => without(line, member)],
    ),
    ['no content_path', (line) => without(line, 'content_path'), true],
  ])('%s', async (_, change, orphans = false) => {
    await changeLine(change);
    expect(await shown()).toEqual([...(orphans ? orphaned() : []), `defect line-malformed ${segment}`]);
  });

  it('is reported with its segment, its offset and its upload', async () => {
    await changeLine((line) => ({ ...line, manufacturer: 7 }));
    expect((await found()).findings).toEqual([
      {
        state: 'defect',
        kind: 'line-malformed',
        path: segment,
        uploadId: file.uploadId,
        line: { segment, offset: 0 },
        detail: "the line is malformed: manufacturer isn't a text",
      },
    ]);
  });
});

describe('a line of many megabytes', () => {
  const LONG = 'é\\n\\u00e9'.repeat(150_000);
  const longLine = (): string =>
    indexLine({ ...json, uploadId: uuidV7(), additionalData: '@' }).replace('"@"', () => `"${LONG}"`);

  it.each<[string, (line: string) => string | Buffer, boolean]>([
    ['is read', (line) => line, true],
    ['is read wherever a character is split', (line) => line.replace(LONG, '€'.repeat(300_000)), true],
    ['is read wherever an escape is split', (line) => line.replace(LONG, () => '\\u00e9'.repeat(300_000)), true],
    ['may have another long member', (line) => line.replace('}', `,"more":"${'x'.repeat(2_000_000)}"}`), true],
    ['may have many members', (line) => line.replace('}', `,"more":[${'1,'.repeat(2000)}1]}`), true],
    ['is malformed with a control character in its middle', (line) => replaceMiddle(line, '\t'), false],
    ['is malformed with an invalid escape', (line) => replaceMiddle(line, '\\x'), false],
    ['is malformed with invalid hexadecimal digits', (line) => replaceMiddle(line, '\\u00g0'), false],
    ['is malformed when it is not UTF-8', (line) => splitMiddle(Buffer.from(line), Buffer.from([0xff])), false],
    ['is malformed when its text has no end', (line) => line.replace(/","received_at.*/s, ''), false],
    ['is malformed without a member after its long text', (line) => line.replace(/,"received_at":"[^"]*"/, ''), false],
    ['is malformed when it is long apart from its texts', (line) => line.replace('}', `,"more":[${'1,'.repeat(600_000)}1]}`), false],
  ])('%s', async (_, change, isSound) => {
    await appendFile(at(segment), Buffer.concat([Buffer.from(change(longLine()) as string), Buffer.from('\n')]));
    expect(await shown()).toEqual(isSound ? [] : [`defect line-malformed ${segment}`]);
  });

  const MIDDLE = LONG.indexOf('é\\n', LONG.length / 2);
  const replaceMiddle = (line: string, by: string): string => line.replace(LONG, () => LONG.slice(0, MIDDLE) + by + LONG.slice(MIDDLE));
  const splitMiddle = (line: Buffer, by: Buffer): Buffer => {
    const middle = line.indexOf('é\\n', line.length >> 1);
    return Buffer.concat([line.subarray(0, middle), by, line.subarray(middle)]);
  };
});

describe('an operation in progress', () => {
  const id = uuidV7();
  const path = `${FILES}/${id}.csv`;
  const markPublication = (contentPath = path): Promise<void> =>
    symlink(JSON.stringify({ content_path: contentPath, segment, offset: 0 }), at(`pending/${id}`));
  const markSegment = (more: object = {}): Promise<void> =>
    symlink(JSON.stringify({ segment, ...more }), at(`pending/${basename(segment, '.ndjson')}`));

  /** Writes a journal with these records to `pending/`. */
  const journalize = async (...records: { uploadId: string; path: string; bytes: Buffer }[]) => {
    const epoch = newEpoch();
    const encoded = records.map(({ uploadId, path, bytes }) => {
      const record = encodeRecord({ uploadId, marker: { content_path: path, segment, offset: 0 }, bytes });
      stampRecord(record, epoch);
      return record;
    });
    await writeFile(at(`pending/${id}.journal`), Buffer.concat([...encoded, Buffer.alloc(100)]));
  };

  it.each<[string, () => Promise<unknown>, () => string[]]>([
    [
      'a small file without a line yet',
      async () => {
        await journalize({ uploadId: id, path, bytes: await readFile(at(file.content.path)) });
        await copyFile(at(file.content.path), at(path));
      },
      () => [`under-way line-absent ${path}`],
    ],
    [
      'a small file that a power cut removed and that is in a journal',
      async () => {
        await journalize({ uploadId: file.uploadId, path: file.content.path, bytes: await readFile(at(file.content.path)) });
        await rm(at(file.content.path));
      },
      () => [`under-way bytes-absent ${file.content.path}`],
    ],
    [
      'a small file that a power cut emptied and that is in a journal',
      async () => {
        await journalize({ uploadId: file.uploadId, path: file.content.path, bytes: await readFile(at(file.content.path)) });
        await truncate(at(file.content.path), 0);
      },
      () => [`under-way bytes-size ${file.content.path}`],
    ],
    [
      'a file without a line yet',
      async () => {
        await markPublication();
        await copyFile(at(file.content.path), at(path));
      },
      () => [`under-way line-absent ${path}`],
    ],
    [
      'a segment whose end is being written',
      async () => {
        await markSegment();
        await appendFile(at(segment), '{"upload_id"');
      },
      () => [`under-way line-torn ${segment}`],
    ],
    [
      'lines that a power cut replaced by zeros',
      async () => {
        await markSegment();
        await appendFile(at(segment), `${'\0'.repeat(4096)}"}\n`);
      },
      () => [`under-way line-malformed ${segment}`],
    ],
    [
      'a long line that a power cut replaced by zeros',
      async () => {
        await markSegment();
        await appendFile(at(segment), `${'\0'.repeat(100_000)}"}\n`);
      },
      () => [`under-way line-malformed ${segment}`],
    ],
    ['a staged file', () => writeFile(at(`staging/${id}`), 'x'), () => [`under-way staged staging/${id}`]],
    [
      'a line left by a failed write whose file was removed',
      async () => {
        await markSegment({ durable_length: 0 });
        await rm(at(file.content.path));
      },
      () => [],
    ],
  ])('is not a defect: %s', async (_, begin, expected) => {
    await begin();
    expect(await shown()).toEqual(expected());
    expect((await found()).totals.defects).toBe(0);
    // The next boot repairs the store, so a second verification finds nothing.
    await (await open()).close();
    expect(await shown()).toEqual([]);
  });

  it.each<[string, () => Promise<unknown>]>([
    [
      'whose line is written after the index was read',
      async () => appendFile(at(segment), `${indexLine({ ...file, uploadId: id, content: { ...file.content, path } })}\n`),
    ],
    ['that is removed', () => rm(at(path))],
  ])('is not a defect: a file %s', async (_, finish) => {
    await markPublication();
    await copyFile(at(file.content.path), at(path));
    const [first = ''] = (await readFile(at(segment), 'utf8')).split('\n');
    await appendFile(at(segment), `${first}\n`);
    const kinds = [];
    for await (const { kind } of verifyStore(view.directory)) {
      kinds.push(kind);
      // By now the verification has listed all files, and is reading the lines of this segment.
      if (kind === 'line-duplicate') await finish().then(() => rm(at(`pending/${id}`)));
    }
    expect(kinds).toEqual(['line-duplicate']);
  });

  it('is not a defect: the new version of a file or segment beside it, while a journal or removal list names the latter', async () => {
    const copyOf = (original: string): string => `${dirname(original)}/.${basename(original)}.rewritten`;
    const copies = [copyOf(file.content.path), copyOf(segment)];
    for (const copy of copies) await writeFile(at(copy), 'x');
    expect(await shown()).toEqual(copies.map((copy) => `defect name-unknown ${copy}`));
    await journalize({ uploadId: file.uploadId, path: file.content.path, bytes: await readFile(at(file.content.path)) });
    const list = encodeRemovalLines([{ segment, removedAt: TIME.toISOString() }, { uploadId: json.uploadId, contentPath: null, scope: null }]);
    await writeFile(at(`pending/${id}.removal`), list);
    expect(await shown()).toEqual(copies.map((copy) => `under-way staged ${copy}`));
  });

  it('is not a torn line: one whose end is written while its segment is read', async () => {
    const lines = await readFile(at(segment));
    await writeFile(at(segment), lines.subarray(0, -10));
    let rest = lines.subarray(-10);
    const opened = await openDirectory(view.directory);
    const read = [];
    for await (const line of opened.lines(() => {
      appendFileSync(at(segment), rest);
      rest = lines.subarray(0, 0);
    })) read.push(line);
    expect(read).toMatchObject([{ isTorn: false }, { end: lines.length, isTorn: false }]);
  });

  it('is not a defect: a line that was removed after it was read', async () => {
    const others = (): string => Array.from({ length: 20 }, () => `${indexLine({ ...json, uploadId: uuidV7() })}\n`).join('');
    await writeFile(at(segment), `{}\n${others()}${await readFile(at(segment), 'utf8')}${others()}`);
    const kinds = [];
    for await (const { kind } of verifyStore(view.directory)) {
      kinds.push(kind);
      if (kinds.length > 1) continue;
      // By now the verification has read this segment's lines, and has checked only the first few of them.
      const storage = await open();
      expect(await storage.storedUploads.remove(file.uploadId)).toBe(true);
      await storage.close();
    }
    expect(kinds).toEqual(['line-malformed']);
  });

  it.each<[string, () => Promise<unknown>, () => string[]]>([
    [
      'a file with the marker of another file',
      async () => {
        await markPublication(`${FILES}/${id}.xml`);
        await copyFile(at(file.content.path), at(path));
      },
      () => [`defect line-absent ${path}`],
    ],
    [
      'missing bytes when a journal has only those of another upload',
      async () => {
        await journalize({ uploadId: id, path, bytes: Buffer.from('x') });
        await rm(at(file.content.path));
      },
      () => [`defect bytes-absent ${file.content.path}`],
    ],
    ...['journal', 'removal'].map((extension): [string, () => Promise<unknown>, () => string[]] => [
      `missing bytes beside a FIFO with the name of a ${extension}`,
      () => promisify(execFile)('mkfifo', [at(`pending/${id}.${extension}`)]).then(() => rm(at(file.content.path))),
      () => [`defect bytes-absent ${file.content.path}`],
    ]),
    ['missing bytes while their segment is open', () => markSegment().then(() => rm(at(file.content.path))), () => [`defect bytes-absent ${file.content.path}`]],
    [
      'missing bytes of a line before the end that will be cut off',
      async () => {
        await markSegment({ durable_length: (await readFile(at(segment))).indexOf('\n') + 1 });
        await rm(at(file.content.path));
      },
      () => [`defect bytes-absent ${file.content.path}`],
    ],
    ['a malformed line in an open segment', () => markSegment().then(() => appendFile(at(segment), '{}\n')), () => [`defect line-malformed ${segment}`]],
    [
      'zeros far before the end of an open segment',
      async () => {
        await markSegment();
        await appendFile(at(segment), `\0\n${JSON.stringify({ x: 'x'.repeat(MIB) })}\n`);
      },
      () => [`defect line-malformed ${segment}`, `defect line-malformed ${segment}`],
    ],
  ])('does not excuse %s', async (_, breakStore, expected) => {
    await breakStore();
    expect(await shown()).toEqual(expected());
  });

  it.each<[string, () => Promise<unknown>, () => string]>([
    [
      'a file whose marker has no offset',
      async () => {
        await symlink(JSON.stringify({ content_path: path, segment }), at(`pending/${id}`));
        await copyFile(at(file.content.path), at(path));
      },
      () => `defect line-absent ${path}`,
    ],
    [
      'a torn line whose marker has a negative length',
      async () => {
        await markSegment({ durable_length: -1 });
        await appendFile(at(segment), '{"upload_id"');
      },
      () => `defect line-torn ${segment}`,
    ],
  ])('does not excuse what the next boot leaves alone: %s', async (_, breakStore, expected) => {
    await breakStore();
    expect(await shown()).toEqual([expected()]);
    await (await open()).close();
    expect(await shown()).toEqual([expected()]);
  });
});

describe('in several passes', () => {
  it('finds the same defects', async () => {
    const storage = await open();
    for (let number = 0; number < 40; number++) await storage.store(anUploadDraft().file(String(number)).build());
    await storage.close();
    expect(await shown({ uploadsPerPass: 5 })).toEqual([]);

    const orphans = Array.from({ length: 20 }, () => `${FILES}/${uuidV7()}`);
    for (const orphan of orphans) await writeFile(at(orphan), '');
    await appendFile(at(segment), await readFile(at(segment)));
    const expected = [...orphans.map((path) => `defect line-absent ${path}`), `defect line-duplicate ${segment}`, `defect line-duplicate ${segment}`].sort();
    expect(await shown({ uploadsPerPass: 5 })).toEqual(expected);
    expect(await shown()).toEqual(expected);
  });
});

describe('what cannot be checked', () => {
  it.each<[string, () => Promise<unknown>]>([
    ['no directory', () => rm(view.directory, { recursive: true })],
    ['a file in place of the directory', () => rm(view.directory, { recursive: true }).then(() => writeFile(view.directory, ''))],
    [
      'a directory that is not a store',
      async () => {
        await rm(at('uploads'), { recursive: true });
        await rm(at('files'), { recursive: true });
      },
    ],
  ])('%s', async (_, breakStore) => {
    await breakStore();
    await expect(found()).rejects.toThrow(NoStoreError);
  });

  it('is checked through a symbolic link to the directory', async () => {
    await symlink(view.directory, join(base, 'link'));
    const findings = [];
    for await (const finding of verifyStore(join(base, 'link'))) findings.push(finding);
    expect(findings).toEqual([]);
  });
});

describe('unreadable files are reported, and the rest is checked', () => {
  /**
   * Verifies with a file or directory that nobody may read. Gives up root's rights meanwhile, because root can read
   * everything.
   */
  async function withoutPermission(path: string): Promise<Awaited<ReturnType<typeof found>>> {
    const isRoot = process.geteuid?.() === 0;
    await chmod(base, 0o755);
    await chmod(at(path), 0);
    if (isRoot) process.seteuid?.(65_534);
    try {
      return await found();
    } finally {
      if (isRoot) process.seteuid?.(0);
      await chmod(at(path), 0o755);
    }
  }

  it.each<[string, () => string, string[]]>([
    ['bytes', () => file.content.path, ['unreadable']],
    ['a directory of bytes', () => FILES, ['unreadable', 'unreadable']],
    ['a segment', () => segment, ['line-absent', 'unreadable']],
    ['a directory of segments', () => SEGMENTS, ['line-absent', 'unreadable']],
  ])('%s', async (_, path, kinds) => {
    await writeFile(at('uploads/README'), '');
    const { findings, totals } = await withoutPermission(path());
    expect(totals).toMatchObject({ defects: 1, unknown: kinds.length });
    expect(findings.filter(({ state }) => state === 'defect').map(({ path }) => path)).toEqual(['uploads/README']);
    expect(findings.filter(({ state }) => state === 'unknown').map(({ kind }) => kind).sort()).toEqual(kinds);
  });
});

describe('the report', () => {
  it('has one line for each finding, whatever the name, and a summary', async () => {
    await writeFile(at('uploads/a\n\u001b[31mb\u202e'), '');
    await rm(at(file.content.path));
    await changeLine((line) => ({ ...line, manufacturer: 7, content_path: null }));
    const lines = [];
    for await (const line of textReport(verifyStore(view.directory))) lines.push(line);
    expect(lines).toEqual([
      'uploads/a\\u{a}\\u{1b}[31mb\\u{202e}: the layout has no such name, or not of this type\n',
      `${segment} at byte 0 (upload ${file.uploadId}): the line is malformed: manufacturer isn't a text\n`,
      '2 uploads, 0 files, 0 bytes, 2 defects\n',
    ]);
  });
});

