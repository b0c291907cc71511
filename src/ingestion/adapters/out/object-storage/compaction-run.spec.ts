import { describe, expect, it } from 'vitest';
import { HOUR_MS } from '../../../../common/durations.js';
import { uuidAt } from '../../../../common/uuid.js';
import { InMemoryBucket } from '../../../../testing/in-memory.bucket.js';
import { type CompactionReport, jsonReport, textReport } from './compaction-report.js';
import { CompactionRun } from './compaction-run.js';
import type { Day } from './segment-names.js';

const DATES = ['2024-03-08', '2024-03-09', '2024-03-10', '2024-03-11'] as const;
const DAYS: Day[] = DATES.map((date) => ({ kind: 'historical', date }));
const pathOf = (date: string) => `uploads/kind=historical/date=${date}`;
const nameOf = (date: string, at: number) => `${uuidAt(new Date(Date.parse(date) + at))}.ndjson`;
const torn = `${pathOf(DATES[1])}/${nameOf(DATES[1], 9)}`;

/**
 * A bucket with four days. The first is to be compacted. The second has a malformed segment and an old empty one. The
 * third is being compacted by another process. The fourth has a malformed plan, so its compaction fails.
 */
async function filled(): Promise<InMemoryBucket> {
  const bucket = new InMemoryBucket();
  const earlier = bucket.another();
  earlier.aheadMs = -26 * HOUR_MS;
  for (const date of DATES) {
    for (let at = 0; at < 3; at++) await earlier.create(`${pathOf(date)}/${nameOf(date, at)}`, Buffer.from('{"upload_id":"a"}\n'));
  }
  await earlier.create(torn, Buffer.from('{'));
  await earlier.create(`${pathOf(DATES[1])}/${nameOf(DATES[1], 10)}`, Buffer.from(''));
  const sources = bucket.keys.filter((key) => key.startsWith(pathOf(DATES[2])));
  const target = `${pathOf(DATES[2])}/${uuidAt(new Date())}.ndjson`;
  await bucket.create(`compaction/kind=historical/date=${DATES[2]}`, Buffer.from(JSON.stringify({ target, sources, bytes: 54 })));
  await earlier.create(`compaction/kind=historical/date=${DATES[3]}`, Buffer.from('{'));
  await earlier.create('idempotency/a', Buffer.from('{}'));
  return bucket;
}

async function lines(report: CompactionReport, run: CompactionRun): Promise<string> {
  let text = '';
  for await (const line of report(run)) text += line;
  return text;
}

describe('a run of compaction', () => {
  it('does what it can, and reports to a person', async () => {
    const run = new CompactionRun(await filled(), DAYS, false);
    expect(await lines(textReport, run)).toBe(
      [
        `${pathOf(DATES[0])}: 3 segments became 1`,
        `left alone: ${torn}: its last line has no newline`,
        `${pathOf(DATES[1])}: 3 segments became 1`,
        `${pathOf(DATES[1])}: 1 empty segment removed`,
        `in progress: ${pathOf(DATES[2])}: another process is working on it`,
        `failed: ${pathOf(DATES[3])}: compaction/kind=historical/date=${DATES[3]} is no plan; nothing was done there.`,
        '4 days, 6 segments (108 bytes) became 2, 1 empty segment and 1 claim removed, 1 left alone, 1 in progress, 1 failed',
        '',
      ].join('\n'),
    );
    expect(run.progress).toEqual({ days: 4, segmentsRead: 7 });
  });

  it('reports to a script', async () => {
    const text = await lines(jsonReport, new CompactionRun(await filled(), DAYS, false));
    const done = { sources: 3, targets: 1, bytes: 54, fences: 0 };
    expect(text.trimEnd().split('\n').map((line) => JSON.parse(line) as unknown)).toEqual([
      { state: 'compacted', path: pathOf(DATES[0]), ...done },
      { state: 'malformed', path: torn, detail: 'its last line has no newline' },
      { state: 'compacted', path: pathOf(DATES[1]), ...done, fences: 1 },
      { state: 'under-way', path: pathOf(DATES[2]), sources: 0, targets: 0, bytes: 0, fences: 0 },
      { state: 'failed', path: pathOf(DATES[3]), detail: `compaction/kind=historical/date=${DATES[3]} is no plan; nothing was done there.` },
      { summary: { days: 4, sources: 6, targets: 2, bytes: 108, fences: 1, claims: 1, malformed: 1, failed: 1, under_way: 1, dry_run: false } },
    ]);
  });

  it('reports its effects and changes nothing in a dry run', async () => {
    const bucket = await filled();
    const { keys } = bucket;
    const text = await lines(textReport, new CompactionRun(bucket, DAYS.slice(0, 2), true));
    expect(text).toContain(`${pathOf(DATES[0])}: 3 segments would become 1\n`);
    expect(text).toContain('2 days, 6 segments (108 bytes) would become 2, 1 empty segment and 1 claim would be removed, 1 left alone\n');
    expect(bucket.keys).toEqual(keys);
  });

  it('reports claims that could not be removed', async () => {
    const bucket = await filled();
    bucket.before = (operation, key) => {
      if (operation === 'list' && key === 'idempotency/') throw new Error('The store\nis down.');
    };
    const run = new CompactionRun(bucket, [], false);
    expect(await lines(textReport, run)).toContain('failed: idempotency/: The store is down.\n');
    expect(run.totals.failed).toBe(1);
  });
});
