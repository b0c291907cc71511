import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { uuidAt } from '../../../../../common/uuid.js';
import { GatedDisk } from '../../../../../testing/gated-disk.js';
import { indexLine } from '../../../../domain/layout.js';
import { LocalDiskFileStorage } from '../local-disk.file-storage.adapter.js';

const BEGIN = Date.parse('2026-03-10');
const DAY = 'uploads/kind=nowcast/date=2026-03-10';
const LINES = 50_000;
/** For each upload. Its id in a set takes about 85 bytes. */
const MAX_HELD_BYTES = 110;

let directory: string;
let disk: GatedDisk;
let storage: LocalDiskFileStorage;
let segment: string;

const lineAt = (time: number, customerId: string): string =>
  indexLine({
    uploadId: uuidAt(new Date(time)),
    kind: 'nowcast',
    customerId,
    filename: 'load.csv',
    manufacturer: 'Acme',
    idempotencyKey: null,
    additionalData: null,
    receivedAt: new Date(time + 2),
    content: null,
  });

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'large-removal-'));
  await mkdir(join(directory, DAY), { recursive: true });
  segment = join(directory, DAY, `${uuidAt(new Date(BEGIN))}.ndjson`);
  const lines = Array.from({ length: LINES }, (_, index) => lineAt(BEGIN + index, index % 11 === 0 ? 'staying' : 'leaving'));
  await writeFile(segment, lines.map((line) => `${line}\n`).join(''));
  disk = new GatedDisk();
  storage = await LocalDiskFileStorage.open({ directory, disk });
});
afterEach(async () => {
  await storage.close();
  await rm(directory, { recursive: true });
});

/** The memory in use after all garbage was collected. */
function heldBytes(): number {
  setFlagsFromString('--expose-gc');
  (runInNewContext('gc') as () => void)();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

it('holds only the ids of the uploads while it removes all uploads of a customer from a segment', async () => {
  const before = heldBytes();
  const held: number[] = [];
  disk.gate = (perform, operation, path) => {
    if (operation === 'rename' && /\.(removal|ndjson)$/.test(path)) held.push(heldBytes() - before);
    return perform();
  };
  expect(await storage.storedUploads.removeAll({ customerId: 'leaving' })).toBe(LINES - Math.ceil(LINES / 11));
  expect(held).toHaveLength(2);
  expect(Math.max(...held)).toBeLessThan(MAX_HELD_BYTES * LINES);
});
