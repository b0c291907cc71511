import { mkdtemp, readdir, readFile, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { MIB } from '../../src/common/sizes.js';
import { LocalDiskFileStorage } from '../../src/ingestion/adapters/out/local-disk/local-disk.file-storage.adapter.js';
import { anUploadDraft } from '../../src/testing/index.js';

const FILE_BYTES = 10 * 1024;
const BLOCK_BYTES = 4096;

let page: string;
beforeAll(async () => {
  page = await readFile('docs/growth-and-quotas.md', 'utf8');
});

/** The numbers in what a row of the page says. */
function numbersOf(what: string): number[] {
  const row = page.split('\n').find((line) => line.startsWith(`| ${what} |`)) ?? '';
  return (row.split('|')[2]?.match(/\d[\d,]*/g) ?? []).map((text) => Number(text.replaceAll(',', '')));
}

/** The numbers that are written in a sentence of the page where the pattern has groups. */
const numbersIn = (sentence: RegExp): number[] => (sentence.exec(page) ?? []).slice(1).map((text) => Number(text.replaceAll(',', '')));

describe('docs/growth-and-quotas.md', () => {
  let directory: string;
  let storage: LocalDiskFileStorage;
  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'load-data-growth-'));
    storage = await LocalDiskFileStorage.open({ directory, logger: { warn: () => undefined } });
  });
  afterEach(async () => {
    await storage.close();
    await rm(directory, { recursive: true });
  });

  const draft = () => anUploadDraft().with({ customerId: 'acme-energy', filename: 'load-2026-11-26.csv', manufacturer: 'Landis+Gyr', contentType: 'text/csv' });
  const file = () => draft().file(Buffer.alloc(FILE_BYTES, 'a'));

  const sizesIn = async (part: string): Promise<number[]> => {
    const entries = await readdir(join(directory, part), { recursive: true, withFileTypes: true });
    return Promise.all(entries.filter((entry) => entry.isFile()).map(async ({ parentPath, name }) => (await stat(join(parentPath, name))).size));
  };
  const sum = (sizes: readonly number[]): number => sizes.reduce((total, size) => total + size, 0);

  it('says how long lines are, and how much a day takes', async () => {
    const written: number[] = [];
    const bytes = async () => sum(await sizesIn('uploads'));
    for (const each of [draft(), file(), file().with({ idempotencyKey: '01a2077b-c74f-713b-adc2-ac679043523f' })]) {
      const before = written.length === 0 ? 0 : await bytes();
      await storage.store(each.build());
      written.push((await bytes()) - before);
    }
    const documented = numbersOf("an upload's line");
    expect(written.map((length) => Math.round(length / 10) * 10)).toEqual(documented);

    const [uploads = NaN, kibibytes, gigabytes, megabytes] = numbersIn(/So ([\d,]+) files of (\d+) KiB a day take ([\d.]+) GB a day on a disk, and their lines (\d+) MB\./);
    expect(kibibytes).toBe(FILE_BYTES / 1024);
    expect((uploads * Math.ceil(FILE_BYTES / BLOCK_BYTES) * BLOCK_BYTES) / 1e9).toBeCloseTo(gigabytes ?? NaN, 1);
    expect((uploads * (documented[1] ?? NaN)) / 1e6).toBe(megabytes);
  });

  it('says what a key takes, within a fifth', async () => {
    const [documented = NaN] = numbersOf('an idempotency key');
    const count = 4_000;
    await Promise.all(Array.from({ length: count }, (_, number) => storage.store(draft().with({ idempotencyKey: `key-${number}` }).build())));
    // The database of the keys has its final size when it is closed.
    await storage.close();
    const each = sum(await sizesIn('idempotency')) / count;
    expect([documented * 0.8 <= each, each <= documented * 1.2], `${each} bytes a key`).toEqual([true, true]);
  });

  it('says what the journals of small files take, however many files there are', async () => {
    const [documented = NaN] = numbersOf('journals');
    for (let batch = 0; batch < 4; batch++) await Promise.all(Array.from({ length: (documented * MIB) / FILE_BYTES / 2 }, () => storage.store(file().build())));
    const journals = (await sizesIn('pending')).filter((size) => size >= MIB);
    expect(sum(journals)).toBe(documented * MIB);
  });
});
