import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { MIB } from '../../../../../common/sizes.js';
import { uuidAt } from '../../../../../common/uuid.js';
import { contentPath, indexLine, segmentDirectory } from '../../../../domain/layout.js';
import type { Upload } from '../../../../domain/upload.js';
import { LocalDiskFileStorage } from '../local-disk.file-storage.adapter.js';

const RECEIVED_AT = new Date('2026-03-10T12:00:00Z');
const LONG = 'x'.repeat(MIB);
/** The longest text that may be parsed in one go, which blocks the event loop for less than a millisecond. */
const SHORT = 128 * 1024;

const anUpload = (customerId: string, additionalData: string | null): Upload => ({
  uploadId: uuidAt(RECEIVED_AT),
  kind: 'historical',
  customerId,
  filename: 'load.csv',
  manufacturer: 'Acme',
  idempotencyKey: null,
  additionalData,
  receivedAt: RECEIVED_AT,
  content: null,
});
const [first, long, last] = [anUpload('a', null), anUpload('b', LONG), anUpload('a', LONG)];

let directory: string;
let storage: LocalDiskFileStorage;
/** Opens a store whose lines another program has written. */
async function openWith(rewritten: (line: object) => string): Promise<void> {
  const lines = [first, long, last].map((upload) => `${rewritten(JSON.parse(indexLine(upload)) as object)}\n`);
  await writeFile(join(directory, segmentDirectory('historical', RECEIVED_AT), 'foreign.ndjson'), lines.join(''));
  storage = await LocalDiskFileStorage.open({ directory });
}

const withBlanks = (line: object): string => JSON.stringify(line, null, 1).replaceAll('\n', '');
const reversed = (line: object): string => JSON.stringify(Object.fromEntries(Object.entries(line).reverse()));

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'foreign-lines-'));
  await mkdir(join(directory, segmentDirectory('historical', RECEIVED_AT)), { recursive: true });
});
afterEach(async () => {
  vi.restoreAllMocks();
  await storage.close();
  await rm(directory, { recursive: true });
});

describe.each([
  ['with blanks', withBlanks],
  ['with blanks behind the colons but the first', (line: object) => withBlanks(line).replace('{ "upload_id": ', '{"upload_id":')],
  ['with its members in another order', reversed],
])('a long line that another program has written %s', (_, rewritten) => {
  it.each<[string, (uploads: LocalDiskFileStorage['storedUploads']) => Promise<unknown>, unknown]>([
    ['found', (uploads) => uploads.find(long.uploadId), long],
    ['listed', async (uploads) => new Set((await uploads.list({}, 10)).uploads), new Set([first, long, last])],
    ['listed by customer', async (uploads) => (await uploads.list({ customerId: 'b' }, 10)).uploads, [long]],
    ['removed', async (uploads) => [await uploads.remove(long.uploadId), (await uploads.list({ customerId: 'a' }, 10)).uploads.length], [true, 2]],
    ['removed by customer', async (uploads) => [await uploads.removeAll({ customerId: 'b' }), (await uploads.list({}, 10)).uploads.length], [1, 2]],
  ])('is %s, and not parsed in one go', async (_, work, expected) => {
    await openWith(rewritten);
    const parse = vi.spyOn(JSON, 'parse');
    expect(await work(storage.storedUploads)).toEqual(expected);
    expect(Math.max(0, ...parse.mock.calls.map(([text]) => text.length))).toBeLessThan(SHORT);
  });
});

describe('an upload with a line in which someone has replaced the time by another text', () => {
  const content = { path: contentPath({ ...first, beganAt: RECEIVED_AT }), type: 'text/csv', size: 5, sha256: 'ab' };
  const path = (): string => join(directory, content.path);

  beforeEach(async () => {
    await mkdir(dirname(path()), { recursive: true });
    await writeFile(path(), 'bytes');
    const lines = [first, long].map((upload) => JSON.parse(indexLine(upload === first ? { ...first, content } : upload)) as object);
    const text = lines.map((line, index) => `${JSON.stringify(index === 0 ? { ...line, received_at: 'yesterday' } : line)}\n`).join('');
    await writeFile(join(directory, segmentDirectory('historical', RECEIVED_AT), 'edited.ndjson'), text);
    storage = await LocalDiskFileStorage.open({ directory });
  });
  const expectRemoved = async (): Promise<void> => {
    expect(existsSync(path())).toBe(false);
    const lines = await readFile(join(directory, segmentDirectory('historical', RECEIVED_AT), 'edited.ndjson'), 'utf8');
    expect(lines).toBe(`${indexLine(long)}\n`);
  };

  it('is neither found nor listed', async () => {
    expect(await storage.storedUploads.find(first.uploadId)).toBeUndefined();
    expect((await storage.storedUploads.list({}, 10)).uploads).toEqual([long]);
  });

  it('is removed by its id', async () => {
    expect(await storage.storedUploads.remove(first.uploadId)).toBe(true);
    await expectRemoved();
  });

  it('is removed with all uploads of its customer, but not with those before a time', async () => {
    expect(await storage.storedUploads.removeAll({ customerId: 'a', to: new Date() })).toBe(0);
    expect(await storage.storedUploads.removeAll({ customerId: 'a' })).toBe(1);
    await expectRemoved();
  });
});

it.each([
  ['Zürich', 'Z\\u00fcrich'],
  ['a/b', 'a\\/b'],
  ['the "first" 電', 'the \\u0022first\\u0022 \\u96fb'],
])('a line in which another program has escaped the customer %s is listed and removed by customer', async (customerId, escaped) => {
  const upload = anUpload(customerId, null);
  const line = indexLine(upload).replace(JSON.stringify(customerId), `"${escaped}"`);
  await writeFile(join(directory, segmentDirectory('historical', RECEIVED_AT), 'escaped.ndjson'), `${line}\n`);
  storage = await LocalDiskFileStorage.open({ directory });
  const { storedUploads } = storage;
  expect((await storedUploads.list({ customerId }, 10)).uploads).toEqual([upload]);
  expect(await storedUploads.removeAll({ customerId: 'Z' })).toBe(0);
  expect(await storedUploads.removeAll({ customerId })).toBe(1);
  expect((await storedUploads.list({ customerId }, 10)).uploads).toEqual([]);
});
