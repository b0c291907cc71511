import * as fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { deferred } from '../../../../../test/support/deferred.js';
import { HOUR_MS } from '../../../../common/durations.js';
import { MIB } from '../../../../common/sizes.js';
import { uuidAt } from '../../../../common/uuid.js';
import { InMemoryBucket } from '../../../../testing/in-memory.bucket.js';
import type { Bucket, ListedObject } from './bucket.js';
import { closedDays, plannedDays } from './compaction-days.js';
import { compactDay, type CompactionOptions } from './compaction.js';
import { removeOldClaims } from './old-claims.js';

const DATE = '2026-03-10';
const MIDNIGHT = Date.parse('2026-03-11T00:00:00Z');
const DIRECTORY = `uploads/kind=nowcast/date=${DATE}/`;
const PLAN = `compaction/kind=nowcast/date=${DATE}`;

const compact = (bucket: Bucket, options?: CompactionOptions) => compactDay(bucket, 'nowcast', DATE, options);
const keyAt = (time: number) => `${DIRECTORY}${uuidAt(new Date(time))}.ndjson`;
const line = (uploadId: string, more: object = {}) => `${JSON.stringify({ upload_id: uploadId, kind: 'nowcast', ...more })}\n`;
const ids = (count: number, prefix = 'upload') => Array.from({ length: count }, (_, index) => `${prefix}-${index}`);

/**
 * The bucket as another process sees it when the store's clock has moved `aheadMs` milliseconds on, so that objects are
 * older.
 */
function later(bucket: InMemoryBucket, aheadMs: number): InMemoryBucket {
  const another = bucket.another();
  another.aheadMs = aheadMs;
  return another;
}

/**
 * Stores a segment whose name has a given time (default: an hour before midnight) and whose age by the store's clock is
 * `ageMs`. Returns its key.
 */
async function put(bucket: InMemoryBucket, text: string | Buffer, { time = MIDNIGHT - HOUR_MS, ageMs = 2 * HOUR_MS, key = keyAt(time) } = {}) {
  await later(bucket, -ageMs).create(key, Buffer.from(text));
  return key;
}

/** Stores `segments` segments of two lines each, and returns the upload ids in the lines. */
async function putMany(bucket: InMemoryBucket, segments: number, prefix?: string): Promise<string[]> {
  const uploads = ids(segments * 2, prefix);
  for (let at = 0; at < segments; at++) {
    await put(bucket, uploads.slice(at * 2, at * 2 + 2).map((id) => line(id)).join(''), { time: MIDNIGHT - HOUR_MS + at });
  }
  return uploads;
}

/**
 * The upload ids that a reader finds by listing the day's segments and then reading them; undefined if a segment was
 * removed in between.
 */
async function readOnce(bucket: Bucket): Promise<string[] | undefined> {
  const keys: string[] = [];
  for await (const { key } of bucket.list(DIRECTORY)) keys.push(key);
  const texts = await Promise.all(keys.map(async (key) => (await bucket.read(key))?.bytes.toString()));
  if (texts.includes(undefined)) return undefined;
  const lines = texts.join('').split('\n').filter((text) => text !== '');
  return lines.map((text) => (JSON.parse(text) as { upload_id: string }).upload_id).sort();
}

const distinct = (read: string[] | undefined) => read && [...new Set(read)];
const segmentsOf = (bucket: InMemoryBucket) => bucket.keys.filter((key) => key.startsWith(DIRECTORY));
const content = async (bucket: Bucket, key = '') => (await bucket.read(key))?.bytes.toString();

const MOMENTS = ['before', 'after'] as const;

/** The number of operations on the bucket that the compaction of this many segments takes. */
async function operationsOf(segments: number): Promise<number> {
  const bucket = new InMemoryBucket();
  await putMany(bucket, segments);
  let count = 0;
  bucket.before = () => {
    count += 1;
  };
  await compact(bucket);
  return count;
}

const SEGMENTS = 4;
const operations = await operationsOf(SEGMENTS);
const steps = MOMENTS.flatMap((moment) => Array.from({ length: operations }, (_, at): [string, number] => [moment, at])) as [
  (typeof MOMENTS)[number],
  number,
][];

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['Date'], now: MIDNIGHT + 2 * HOUR_MS });
});
afterEach(() => {
  vi.useRealTimers();
});

describe('compactDay', () => {
  it('merges 3,000 segments into one, with the lines in the order of the keys', async () => {
    const bucket = new InMemoryBucket();
    const uploads = await putMany(bucket, 3_000);
    const report = await compact(bucket);
    const [target, ...others] = segmentsOf(bucket);
    expect(others).toEqual([]);
    expect(target).toMatch(/\/[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}\.ndjson$/);
    const text = uploads.map((id) => line(id)).join('');
    expect(await content(bucket, target)).toBe(text);
    expect(report).toEqual({ kind: 'nowcast', date: DATE, sources: 3_000, targets: 1, bytes: text.length, fences: 0, malformed: [], isBusy: false });
  });

  it.each<[string, (objects: ListedObject[]) => ListedObject[]]>([
    ['repeats a key', (objects) => objects.flatMap((object) => [object, object])],
    ['repeats a page', (objects) => [...objects.slice(0, 4), ...objects.slice(2)]],
    ['is in another order', (objects) => [...objects].reverse()],
  ])('merges each segment once, in the order of the keys, from a listing that %s', async (_, listed) => {
    const bucket = new InMemoryBucket();
    const uploads = await putMany(bucket, 6);
    bucket.listed = listed;
    expect(await compact(bucket)).toMatchObject({ sources: 6, targets: 1 });
    const [target, ...others] = segmentsOf(bucket);
    expect(others).toEqual([]);
    expect(await content(bucket, target)).toBe(uploads.map((id) => line(id)).join(''));
  });

  it('lets other work run while it goes through the segments of a day', async () => {
    const bucket = new InMemoryBucket();
    await putMany(bucket, 500);
    // Each reading of the clock advances it by a millisecond, so that a turn has few steps on a machine of any speed.
    let now = performance.now();
    vi.spyOn(performance, 'now').mockImplementation(() => now++);
    const looked = { inTurn: 0, most: 0, inAll: 0 };
    bucket.listed = (objects) =>
      objects.map(({ key, size, ageMs }) => ({
        key,
        size,
        get ageMs() {
          looked.inTurn += 1;
          looked.inAll += 1;
          looked.most = Math.max(looked.most, looked.inTurn);
          return ageMs;
        },
      }));
    let others = setImmediate(function turnOfOthers() {
      looked.inTurn = 0;
      others = setImmediate(turnOfOthers);
    });
    expect(await compact(bucket)).toMatchObject({ sources: 500 });
    clearImmediate(others);
    vi.restoreAllMocks();
    expect(looked.inAll).toBeGreaterThanOrEqual(500);
    expect(looked.most).toBeLessThan(50);
  });

  it('loses no line when listings omit segments', async () => {
    const bucket = new InMemoryBucket();
    const uploads = await putMany(bucket, 6);
    let listing = 0;
    bucket.listed = (objects) => objects.filter((_, index) => (index + listing++) % 3 > 0);
    for (let turn = 0; turn < 5; turn++) await compact(later(bucket, turn * HOUR_MS)).catch(() => undefined);
    await compact(bucket).catch(() => undefined);
    bucket.listed = (objects) => objects;
    await compact(later(bucket, 6 * HOUR_MS));
    expect(await readOnce(bucket)).toEqual([...uploads].sort());
  });

  it('writes no line for a plan that names a source twice', async () => {
    const bucket = new InMemoryBucket();
    await putMany(bucket, 2);
    const [first = ''] = segmentsOf(bucket);
    const bytes = 2 * ((await content(bucket, first)) ?? '').length;
    const target = first.replace(/[^/]*$/, `${uuidAt(new Date())}.ndjson`);
    await bucket.create(`compaction/kind=nowcast/date=${DATE}`, Buffer.from(JSON.stringify({ target, sources: [first, first], bytes })));
    await compact(later(bucket, HOUR_MS));
    expect(await readOnce(bucket)).toHaveLength(4);
    expect(await content(bucket, target)).toBe('');
  });

  it('gives its segment a key after those of its sources, for listings that take several pages', async () => {
    const bucket = new InMemoryBucket();
    await put(bucket, line('first'));
    const last = await put(bucket, line('last'), { time: MIDNIGHT + 9 * 60_000 });
    await compact(bucket);
    const [target = ''] = segmentsOf(bucket);
    expect(target > last).toBe(true);
  });

  it('never merges its own segments again, and merges later segments into others', async () => {
    const bucket = new InMemoryBucket();
    await putMany(bucket, 3);
    await compact(bucket);
    const [first = ''] = segmentsOf(bucket);
    const next = later(bucket, HOUR_MS);
    expect(await compact(next)).toMatchObject({ sources: 0, targets: 0 });
    await putMany(bucket, 2, 'late');
    expect(await compact(next)).toMatchObject({ sources: 2, targets: 1 });
    expect(segmentsOf(bucket)).toHaveLength(2);
    expect(segmentsOf(bucket)).toContain(first);
    expect(await readOnce(bucket)).toEqual([...ids(4, 'late'), ...ids(6)].sort());
  });

  it.each<[string, (bucket: InMemoryBucket) => Promise<string>, string?]>([
    ['a segment without a final newline', (bucket) => put(bucket, line('a') + line('b').trimEnd()), 'its last line has no newline'],
    ['a segment with a line that is not JSON', (bucket) => put(bucket, `${line('a')}{"upload_id":\n`), `the line at byte ${line('a').length} is not a JSON object in UTF-8`],
    ['a segment with an empty line', (bucket) => put(bucket, '\n'), 'the line at byte 0 is not a JSON object in UTF-8'],
    ['a segment with a line that is not an object', (bucket) => put(bucket, '[{}]\n'), 'the line at byte 0 is not a JSON object in UTF-8'],
    ['a segment that is not UTF-8', (bucket) => put(bucket, Buffer.from('7b2261223a22ff227d0a', 'hex')), 'the line at byte 0 is not a JSON object in UTF-8'],
    ['a segment of 16 MiB', (bucket) => put(bucket, line('a', { additional_data: 'x'.repeat(16 * MIB) }))],
    ['a segment that is younger than ten minutes', (bucket) => put(bucket, line('a'), { ageMs: 10 * 60_000 - 1_000 })],
    ['a segment with another name', (bucket) => put(bucket, line('a'), { key: `${DIRECTORY}archived.ndjson` })],
    ['a segment in a subdirectory', (bucket) => put(bucket, line('a'), { key: `${DIRECTORY}old/${uuidAt(new Date(MIDNIGHT - 1))}.ndjson` })],
    [
      'a segment whose upload has a marker',
      async (bucket) => {
        const key = await put(bucket, line('a'));
        await bucket.create(`staging/${key.slice(DIRECTORY.length, -'.ndjson'.length)}`, Buffer.from('{}'));
        return key;
      },
    ],
    [
      'a segment whose uploads share a marker',
      async (bucket) => {
        const key = await put(bucket, line('a') + line('b'));
        await bucket.create(`staging/${key.slice(DIRECTORY.length)}`, Buffer.from('{}'));
        return key;
      },
    ],
  ])('leaves %s alone', async (_, make, problem) => {
    const bucket = new InMemoryBucket();
    const key = await make(bucket);
    const before = await content(bucket, key);
    await putMany(bucket, 3);
    const report = await compact(bucket);
    expect(report).toMatchObject({ sources: 3, targets: 1, malformed: problem === undefined ? [] : [{ key, problem }] });
    expect(segmentsOf(bucket)).toHaveLength(2);
    expect(await content(bucket, key)).toBe(before);
  });

  it.each([
    ['a single segment', 1, MIDNIGHT + 2 * HOUR_MS],
    ['a day that is not over', 3, MIDNIGHT - 1],
    ['a day that ended a minute ago', 3, MIDNIGHT + 60_000],
  ])('leaves %s alone', async (_, count, now) => {
    vi.setSystemTime(now);
    const bucket = new InMemoryBucket();
    await putMany(bucket, count);
    const { keys } = bucket;
    expect(await compact(bucket)).toMatchObject({ sources: 0, targets: 0, isBusy: false });
    expect(bucket.keys).toEqual(keys);
  });

  it.each([
    ['a day ahead', 24 * HOUR_MS],
    ['a day behind', -24 * HOUR_MS],
  ])("decides by the store's clock whether a day is over, if this machine's clock is %s", async (_, offMs) => {
    const bucket = new InMemoryBucket();
    const putEarlier = (segments: number, prefix?: string) => {
      vi.setSystemTime(MIDNIGHT - HOUR_MS);
      return putMany(bucket, segments, prefix);
    };
    const setStoreTime = (time: number) => {
      vi.setSystemTime(time + offMs);
      bucket.aheadMs = -offMs;
    };
    const uploads = await putEarlier(3);
    setStoreTime(MIDNIGHT + 9 * 60_000);
    expect(await compact(bucket)).toMatchObject({ sources: 0, targets: 0 });
    setStoreTime(MIDNIGHT + 11 * 60_000);
    expect(await compact(bucket)).toMatchObject({ sources: 3, targets: 1 });
    expect(await readOnce(bucket)).toEqual(uploads.sort());
    // The new segment's name shows that compaction created it, so it isn't merged again.
    await putEarlier(2, 'late');
    setStoreTime(MIDNIGHT + 12 * 60_000);
    expect(await compact(bucket)).toMatchObject({ sources: 2, targets: 1 });
  });

  it('leaves segments under an Idempotency-Key until 25 hours after the day has ended, and reads them only once until then', async () => {
    const bucket = new InMemoryBucket();
    const text = (id: string) => line(id, { idempotency_key: id });
    const keys = [await put(bucket, text('a')), await put(bucket, text('b'), { ageMs: 26 * HOUR_MS })];
    await putMany(bucket, 2);
    const waiting = new Set<string>();
    const reads: string[] = [];
    bucket.before = (operation, key) => {
      if (operation === 'read') reads.push(key);
    };
    const at = async (hours: number) => {
      vi.setSystemTime(MIDNIGHT + hours * HOUR_MS);
      reads.length = 0;
      return compact(bucket, { waiting });
    };
    expect(await at(2)).toMatchObject({ sources: 2 });
    expect(reads).toEqual(expect.arrayContaining(keys));
    expect(await at(25)).toMatchObject({ sources: 0 });
    expect(reads).toEqual([PLAN, 'events/cursor']);
    expect(segmentsOf(bucket)).toEqual(expect.arrayContaining(keys));
    expect(await at(26)).toMatchObject({ sources: 2 });
    expect(await readOnce(bucket)).toEqual(['a', 'b', ...ids(4)]);
  });

  it('leaves a segment under an Idempotency-Key until it is 25 hours old in the store, whatever the local clock says', async () => {
    const bucket = new InMemoryBucket();
    for (const id of ['a', 'b']) await put(bucket, line(id, { idempotency_key: id }), { ageMs: 0 });
    const now = MIDNIGHT + 60 * HOUR_MS;
    vi.setSystemTime(now);
    bucket.aheadMs = MIDNIGHT + 26 * HOUR_MS - now;
    expect(await compact(bucket)).toMatchObject({ sources: 0 });
    bucket.aheadMs += 2 * HOUR_MS;
    expect(await compact(bucket)).toMatchObject({ sources: 2 });
  });

  it('removes fences that are older than a day, and no others', async () => {
    const bucket = new InMemoryBucket();
    await put(bucket, '', { ageMs: 25 * HOUR_MS });
    const young = await put(bucket, '', { ageMs: 23 * HOUR_MS });
    const marked = await put(bucket, '', { ageMs: 25 * HOUR_MS });
    await bucket.create(`staging/${marked.slice(DIRECTORY.length, -'.ndjson'.length)}`, Buffer.from('{}'));
    expect(await compact(bucket)).toMatchObject({ fences: 1, sources: 0 });
    expect(segmentsOf(bucket)).toEqual([young, marked].sort());
  });

  it('reports its effects and changes nothing in a dry run', async () => {
    const bucket = new InMemoryBucket();
    for (const id of ids(8)) await put(bucket, line(id));
    await put(bucket, '', { ageMs: 25 * HOUR_MS });
    await put(bucket, 'torn');
    const { keys } = bucket;
    const looked = await compact(bucket, { dryRun: true });
    expect(bucket.keys).toEqual(keys);
    expect(looked).toMatchObject({ sources: 8, targets: 1, fences: 1, malformed: [{}] });
    expect(await compact(bucket)).toEqual(looked);
  });

  it('stops at the next step when aborted, and leaves the rest to the next run', async () => {
    const bucket = new InMemoryBucket();
    const uploads = await putMany(bucket, SEGMENTS);
    const ending = new AbortController();
    bucket.after = (operation) => {
      if (operation === 'create') ending.abort();
    };
    await expect(compact(bucket, { signal: ending.signal })).rejects.toThrow('aborted');
    expect(segmentsOf(bucket)).toHaveLength(SEGMENTS);
    await compact(later(bucket, HOUR_MS));
    expect(segmentsOf(bucket)).toHaveLength(1);
    expect(await readOnce(bucket)).toEqual(uploads.sort());
  });
});

describe('an interrupted compaction', () => {
  it('consists of several operations, so the tables below are not empty', () => {
    expect(operations).toBeGreaterThan(10);
  });

  it.each(steps)('loses no line when its process crashes %s operation %i and another finishes it', async (moment, at) => {
    const bucket = new InMemoryBucket();
    const uploads = (await putMany(bucket, SEGMENTS)).sort();
    const lost = bucket.another();
    let count = 0;
    lost[moment] = () => {
      if (count++ < at) return;
      lost.before = () => {
        throw new Error('lost');
      };
      throw new Error('lost');
    };
    await expect(compact(lost)).rejects.toThrow('lost');
    expect(distinct(await readOnce(bucket))).toEqual(uploads);
    await compact(later(bucket, HOUR_MS));
    expect(segmentsOf(bucket)).toHaveLength(1);
    expect(await readOnce(bucket)).toEqual(uploads);
    expect(await content(bucket, PLAN)).toBe('');
  });

  it.each(steps)('duplicates no line when its process is paused %s operation %i while others continue', async (moment, at) => {
    const bucket = new InMemoryBucket();
    const uploads = await putMany(bucket, SEGMENTS);
    const still = bucket.another();
    const [reached, gate] = [deferred(), deferred()];
    let count = 0;
    still[moment] = async () => {
      if (count++ !== at) return;
      reached.resolve();
      await gate.promise;
    };
    const running = compact(still);
    await reached.promise;
    await compact(later(bucket, HOUR_MS));
    uploads.push(...(await putMany(bucket, 2, 'late')));
    // A third process is in the middle of the next compaction when the first process, which was paused, continues.
    const third = later(bucket, 2 * HOUR_MS);
    third.before = async (operation) => {
      if (operation !== 'remove') return;
      gate.resolve();
      await running;
      await compact(later(bucket, HOUR_MS));
    };
    await compact(third);
    gate.resolve();
    await running;
    await compact(later(bucket, 3 * HOUR_MS));
    expect(await readOnce(bucket)).toEqual(uploads.sort());
    expect(segmentsOf(bucket).length).toBeLessThanOrEqual(2);
  });

  it('lets a reader find every line at any time', async () => {
    const bucket = new InMemoryBucket();
    const uploads = (await putMany(bucket, SEGMENTS)).sort();
    const worker = bucket.another();
    const reads: (string[] | undefined)[] = [];
    for (const moment of MOMENTS) worker[moment] = async () => void reads.push(distinct(await readOnce(bucket)));
    await compact(worker);
    expect(reads.length).toBe(operations * 2);
    for (const read of reads) expect(read).toEqual(uploads);
  });

  it('has the same result with any number of processes and any order of their operations', async () => {
    const processes = fc.array(fc.constantFrom(0, HOUR_MS), { minLength: 2, maxLength: 4 });
    const run = fc.asyncProperty(fc.scheduler(), processes, async (scheduler, aheads) => {
      const bucket = new InMemoryBucket();
      const uploads = (await putMany(bucket, 3)).sort();
      const scheduled = (aheadMs: number) => {
        const own = later(bucket, aheadMs);
        own.before = (operation) => scheduler.schedule(Promise.resolve(), operation);
        return own;
      };
      const read = async () => {
        for (let turn = 0; turn < 3; turn++) {
          const found = distinct(await readOnce(scheduled(0)));
          if (found) expect(found).toEqual(uploads);
        }
      };
      await scheduler.waitFor(Promise.all([...aheads.map((ahead) => compact(scheduled(ahead))), read()]));
      await compact(later(bucket, 2 * HOUR_MS));
      expect(await readOnce(bucket)).toEqual(uploads);
      expect(segmentsOf(bucket)).toHaveLength(1);
    });
    await fc.assert(run, { seed: 20260310, numRuns: 150 });
  });
});

describe('a plan', () => {
  /** Lets a process crash in a compaction right after it has written the plan. Returns this plan. */
  async function lostPlan(bucket: InMemoryBucket): Promise<{ target: string; sources: string[] }> {
    const lost = bucket.another();
    lost.before = (operation) => {
      if (operation === 'upload') throw new Error('lost');
    };
    await expect(compact(lost)).rejects.toThrow('lost');
    return JSON.parse((await content(bucket, PLAN)) ?? '') as { target: string; sources: string[] };
  }

  it('is left to its owner and reported for ten minutes', async () => {
    const bucket = new InMemoryBucket();
    await putMany(bucket, 3);
    const { target, sources } = await lostPlan(bucket);
    expect(target > (sources.at(-1) ?? '')).toBe(true);
    const { keys } = bucket;
    expect(await compact(later(bucket, 9 * 60_000))).toMatchObject({ sources: 0, isBusy: true });
    expect(bucket.keys).toEqual(keys);
    expect(await compact(later(bucket, 11 * 60_000))).toMatchObject({ sources: 3, targets: 1, isBusy: false });
    expect(segmentsOf(bucket)).toEqual([target]);
  });

  it('is found until it is carried out', async () => {
    const bucket = new InMemoryBucket();
    await putMany(bucket, 3);
    const planned = async () => {
      const days = [];
      for await (const day of plannedDays(bucket)) days.push(day);
      return days;
    };
    expect(await planned()).toEqual([]);
    await lostPlan(bucket);
    expect(await planned()).toEqual([{ kind: 'nowcast', date: DATE }]);
    await compact(later(bucket, HOUR_MS));
    expect(await planned()).toEqual([]);
  });

  it('or hold of a crashed process is found until it expires, even on a day with nothing to merge', async () => {
    const bucket = new InMemoryBucket();
    await putMany(bucket, 1);
    const hold = JSON.stringify({ removals: ['crashed'] });
    await bucket.create(PLAN, Buffer.from(hold));
    expect(await compact(later(bucket, 9 * 60_000))).toMatchObject({ isBusy: true });
    expect(await content(bucket, PLAN)).toBe(hold);
    expect(await compact(later(bucket, 11 * 60_000))).toMatchObject({ sources: 0, isBusy: false });
    expect(await content(bucket, PLAN)).toBe('');
  });

  it.each<[string, (bucket: InMemoryBucket, key: string) => Promise<unknown>]>([
    ['removed', (bucket, key) => bucket.remove([key])],
    ['emptied', (bucket, key) => bucket.replace(key, new Uint8Array())],
  ])('is made again when someone else has %s one of its segments', async (_, change) => {
    const bucket = new InMemoryBucket();
    await putMany(bucket, 4);
    const { sources } = await lostPlan(bucket);
    await change(bucket, sources[1] ?? '');
    await compact(later(bucket, HOUR_MS));
    expect(await readOnce(bucket)).toEqual(ids(8).filter((id) => !['upload-2', 'upload-3'].includes(id)));
    expect(await content(bucket, PLAN)).toBe('');
  });

  it.each<[string, (bucket: InMemoryBucket, key: string) => Promise<unknown>]>([
    ['removes', (bucket, key) => bucket.remove([key])],
    ['empties', (bucket, key) => bucket.replace(key, new Uint8Array())],
  ])('writes no target when someone else %s a segment while it is read', async (_, change) => {
    const bucket = new InMemoryBucket();
    await putMany(bucket, 4);
    const worker = bucket.another();
    let changed = false;
    worker.before = async (operation, key) => {
      if (operation !== 'read' || !key.startsWith(DIRECTORY) || changed || !bucket.keys.includes(PLAN)) return;
      changed = true;
      await change(bucket, key);
    };
    await compact(worker).catch((error: unknown) => {
      expect(String(error)).toContain('and had');
    });
    expect(await readOnce(bucket)).toEqual(ids(8).slice(2));
    expect(await compact(later(bucket, HOUR_MS))).toMatchObject({ sources: 3, targets: 1, isBusy: false });
    expect(await readOnce(bucket)).toEqual(ids(8).slice(2));
  });

  it('that is dropped leaves nothing for a process that stalled after it had read all segments', async () => {
    const bucket = new InMemoryBucket();
    await putMany(bucket, 3);
    const stalled = bucket.another();
    const [reached, gate] = [deferred(), deferred()];
    stalled.before = (operation) => {
      if (operation !== 'upload') return;
      reached.resolve();
      return gate.promise;
    };
    const running = compact(stalled);
    await reached.promise;
    const { sources } = JSON.parse((await content(bucket, PLAN)) ?? '') as { sources: string[] };
    await bucket.remove(sources.slice(0, 1));
    expect(await compact(later(bucket, HOUR_MS))).toMatchObject({ sources: 2, targets: 1 });
    gate.resolve();
    await running;
    expect(await readOnce(bucket)).toEqual(ids(6).slice(2));
  });

  it('remains if the store does not remove segments', async () => {
    const bucket = new InMemoryBucket();
    await putMany(bucket, 3);
    const keeping = bucket.another();
    keeping.remove = () => Promise.resolve();
    await expect(compact(keeping)).rejects.toThrow('still exists after its removal');
    expect(await content(bucket, PLAN)).not.toBe('');
    expect(await compact(bucket)).toMatchObject({ sources: 3, targets: 1 });
    expect(await readOnce(bucket)).toEqual(ids(6));
  });

  it('removes nothing when its target has other contents than planned', async () => {
    const bucket = new InMemoryBucket();
    await putMany(bucket, 3);
    const { target } = await lostPlan(bucket);
    await bucket.create(target, Buffer.from(line('other')));
    const { keys } = bucket;
    await expect(compact(bucket)).rejects.toThrow('none of them was removed');
    expect(bucket.keys).toEqual(keys);
  });

  it.each([
    ['not JSON', 'plan'],
    ['another form', '{"target":"x"}'],
    ['keys outside the day', JSON.stringify({ target: keyAt(MIDNIGHT + HOUR_MS), sources: ['files/a', 'files/b'], bytes: 2 })],
    ['a target among its sources', JSON.stringify({ target: keyAt(MIDNIGHT - 1), sources: [keyAt(MIDNIGHT - 1), keyAt(MIDNIGHT - 2)], bytes: 2 })],
  ])('that is not valid (%s) is not carried out', async (_, text) => {
    const bucket = new InMemoryBucket();
    await putMany(bucket, 3);
    await bucket.create(PLAN, Buffer.from(text));
    const { keys } = bucket;
    await expect(compact(later(bucket, HOUR_MS))).rejects.toThrow(`${PLAN} is no plan`);
    expect(bucket.keys).toEqual(keys);
  });
});

describe('closedDays', () => {
  it('lists the days that have ended and have segments', async () => {
    const bucket = new InMemoryBucket();
    for (const key of ['nowcast/date=2026-03-11', 'nowcast/date=2026-03-10', 'historical/date=2025-01-02', 'nowcast/other']) {
      await bucket.create(`uploads/kind=${key}/a.ndjson`, Buffer.from(line('a')));
    }
    const days = [];
    for await (const day of closedDays(bucket)) days.push(day);
    expect(days).toEqual([{ kind: 'historical', date: '2025-01-02' }, { kind: 'nowcast', date: '2026-03-10' }]);
  });
});

describe('removeOldClaims', () => {
  it('removes the claims that are older than 25 hours, and counts them', async () => {
    const bucket = new InMemoryBucket();
    for (let at = 0; at < 2_500; at++) await later(bucket, -26 * HOUR_MS).create(`idempotency/old-${at}`, Buffer.from('{}'));
    await later(bucket, -24.5 * HOUR_MS).create('idempotency/young', Buffer.from('{}'));
    expect(await removeOldClaims(bucket, { dryRun: true })).toBe(2_500);
    expect(bucket.keys).toHaveLength(2_501);
    expect(await removeOldClaims(bucket)).toBe(2_500);
    expect(bucket.keys).toEqual(['idempotency/young']);
  });
});
