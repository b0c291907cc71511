import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { DAY_MS, HOUR_MS } from '../../../../common/durations.js';
import { MIB } from '../../../../common/sizes.js';
import { uuidAt } from '../../../../common/uuid.js';
import { InMemoryBucket } from '../../../../testing/in-memory.bucket.js';
import { compactDay } from './compaction.js';

const DATE = '2026-03-10';
const DIRECTORY = `uploads/kind=nowcast/date=${DATE}/`;
const NOON = Date.parse(`${DATE}T12:00:00Z`);
const IDS = Array.from({ length: 8 }, (_, index) => `upload-${index}`);

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['Date'], now: NOON + DAY_MS });
});
afterEach(() => {
  vi.useRealTimers();
});

it('compaction writes several segments of at most 64 MiB when one would be larger', async () => {
  const bucket = new InMemoryBucket();
  const earlier = bucket.another();
  earlier.aheadMs = -2 * HOUR_MS;
  for (const [index, uploadId] of IDS.entries()) {
    const line = JSON.stringify({ upload_id: uploadId, kind: 'nowcast', additional_data: 'x'.repeat(10 * MIB) });
    await earlier.create(`${DIRECTORY}${uuidAt(new Date(NOON + index))}.ndjson`, Buffer.from(`${line}\n`));
  }
  const looked = await compactDay(bucket, 'nowcast', DATE, { dryRun: true });
  expect(looked).toMatchObject({ sources: 8, targets: 2 });
  expect(await compactDay(bucket, 'nowcast', DATE)).toEqual(looked);
  const segments = bucket.keys.filter((key) => key.startsWith(DIRECTORY));
  const texts = await Promise.all(segments.map(async (key) => String((await bucket.read(key))?.bytes)));
  expect(texts.map(({ length }) => Math.floor(length / MIB)).sort()).toEqual([20, 60]);
  expect(texts.map((text) => text.split('}\n').length - 1).sort()).toEqual([2, 6]);
  expect(texts.flatMap((text) => [...text.matchAll(/"upload_id":"([^"]+)"/g)].map(([, id]) => id)).sort()).toEqual(IDS);
});
