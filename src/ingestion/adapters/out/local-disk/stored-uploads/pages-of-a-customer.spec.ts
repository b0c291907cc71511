import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { uuidAt } from '../../../../../common/uuid.js';
import { listed } from '../../../../../testing/stored-uploads.calls.js';
import { indexLine, segmentDirectory } from '../../../../domain/layout.js';
import { UPLOAD_KINDS, type Upload } from '../../../../domain/upload.js';
import { LocalDiskFileStorage } from '../local-disk.file-storage.adapter.js';

const BEGIN = Date.parse('2026-03-10');
/** Enough that the lines of one kind take several reads, and few enough for one page to read them all. */
const UPLOADS = 40_000;
/** The customer of each hundredth upload. A prime number beside two kinds, so that both have uploads of the customer. */
const RARE = { customerId: 'customer-22', every: 101 };

const uploads = Array.from({ length: UPLOADS }, (_, index): Upload => {
  const time = BEGIN + index * 1000;
  return {
    uploadId: uuidAt(new Date(time)),
    kind: UPLOAD_KINDS[index % UPLOAD_KINDS.length] ?? 'historical',
    customerId: index % RARE.every === 0 ? RARE.customerId : `customer-2${(index % 7) + 3}`,
    filename: `load-${'x'.repeat(index % 90)}.csv`,
    manufacturer: 'Acme',
    idempotencyKey: null,
    additionalData: null,
    receivedAt: new Date(time + 2),
    content: null,
  };
});
const expected = uploads.filter(({ customerId }) => customerId === RARE.customerId).reverse();

let directory: string;
let storage: LocalDiskFileStorage;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'pages-of-a-customer-'));
  for (const kind of UPLOAD_KINDS) {
    const lines = uploads.filter((upload) => upload.kind === kind);
    const segment = join(directory, segmentDirectory(kind, new Date(BEGIN)));
    await mkdir(segment, { recursive: true });
    await writeFile(join(segment, `${lines[0]?.uploadId ?? ''}.ndjson`), lines.map((upload) => `${indexLine(upload)}\n`).join(''));
  }
  storage = await LocalDiskFileStorage.open({ directory });
});
afterAll(async () => {
  await storage.close();
  await rm(directory, { recursive: true });
});

it.each([50, 1_000])('lists the uploads of one customer among many, of both kinds, in pages of %i', async (limit) => {
  expect(await listed(storage.storedUploads, { customerId: RARE.customerId }, limit)).toEqual(expected);
});

it('lists them for more clients at once than there is memory to read ahead for', async () => {
  const lists = await Promise.all(Array.from({ length: 40 }, () => storage.storedUploads.list({ customerId: RARE.customerId }, 100)));
  expect(lists.map((page) => page.uploads.map(({ uploadId }) => uploadId))).toEqual(Array(40).fill(expected.slice(0, 100).map(({ uploadId }) => uploadId)));
});

it('counts and removes them, and leaves those of the others', async () => {
  const { storedUploads } = storage;
  const others = await listed(storedUploads, { customerId: 'customer-23' }, 1_000);
  expect(await storedUploads.removeAll({ customerId: RARE.customerId }, { dryRun: true })).toBe(expected.length);
  expect(await storedUploads.removeAll({ customerId: RARE.customerId }, {})).toBe(expected.length);
  expect(await listed(storedUploads, { customerId: RARE.customerId }, 100)).toEqual([]);
  expect(await listed(storedUploads, { customerId: 'customer-23' }, 1_000)).toEqual(others);
});
