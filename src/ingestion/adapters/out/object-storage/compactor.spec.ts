import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { HOUR_MS, MINUTE_MS } from '../../../../common/durations.js';
import { uuidAt } from '../../../../common/uuid.js';
import { InMemoryBucket } from '../../../../testing/in-memory.bucket.js';
import { compactDay } from './compaction.js';
import { Compactor } from './compactor.js';
import { LateSegments } from './event-outbox/late-segments.js';
import { LostClaims } from './lost-claims.js';

const NOW = Date.parse('2026-03-11T12:00:00Z');
const YESTERDAY = 'uploads/kind=historical/date=2026-03-10/';
const WEEK_AGO = 'uploads/kind=nowcast/date=2026-03-04/';
const BEFORE = 'uploads/kind=nowcast/date=2026-03-03/';

/** After this many iterations of the event loop without an operation on the bucket, a turn of the compactor is over. */
const QUIET_ITERATIONS = 50;

let bucket: InMemoryBucket;
let replicas: InMemoryBucket[];
let compactors: Compactor[];
let warnings: string[];

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['Date', 'setTimeout', 'clearTimeout'], now: NOW });
  bucket = new InMemoryBucket();
  replicas = [];
  compactors = [];
  warnings = [];
});
afterEach(async () => {
  await Promise.all(compactors.map((compactor) => compactor.close()));
  vi.useRealTimers();
});

/** Starts the compactor of another process. Counts the turns that this compactor took in `taken.turns`. */
function replica() {
  const own = bucket.another();
  const taken = { turns: 0 };
  own.after = (operation, key) => {
    if (operation === 'list' && key === 'idempotency/') taken.turns += 1;
  };
  const logger = { warn: (message: string) => void warnings.push(message) };
  const compactor = new Compactor(own, new LostClaims(own, new LateSegments(own), logger), logger);
  replicas.push(own);
  compactors.push(compactor);
  compactor.start();
  return { own, compactor, taken };
}

/** Advances the clock by `ms` milliseconds, and waits until the turns of compaction that begin meanwhile are over. */
async function pass(ms: number): Promise<void> {
  await vi.advanceTimersByTimeAsync(ms);
  const begun = () => replicas.reduce((sum, { operations }) => sum + operations, 0);
  for (let before = begun(), quiet = 0; quiet < QUIET_ITERATIONS; quiet++) {
    await new Promise(setImmediate);
    if (begun() !== before) [before, quiet] = [begun(), 0];
  }
}

async function fill(...directories: string[]): Promise<void> {
  const earlier = bucket.another();
  earlier.aheadMs = -6 * HOUR_MS;
  for (const directory of directories) {
    const date = Date.parse(directory.slice(-11, -1));
    for (let at = 0; at < 3; at++) await earlier.create(`${directory}${uuidAt(new Date(date + at))}.ndjson`, Buffer.from('{"upload_id":"a"}\n'));
  }
}

const segments = (directory: string) => bucket.keys.filter((key) => key.startsWith(directory)).length;

describe('Compactor', () => {
  it('compacts the last seven past days, and removes old claims, a few minutes after the start', async () => {
    const today = 'uploads/kind=historical/date=2026-03-11/';
    await fill(today, YESTERDAY, WEEK_AGO, BEFORE);
    const earlier = bucket.another();
    earlier.aheadMs = -26 * HOUR_MS;
    await earlier.create('idempotency/a', Buffer.from('{}'));
    replica();
    await pass(MINUTE_MS - 1);
    expect(bucket.keys.filter((key) => key.startsWith('uploads/'))).toHaveLength(12);
    await pass(9 * MINUTE_MS + 1);
    expect([today, YESTERDAY, WEEK_AGO, BEFORE].map(segments)).toEqual([3, 1, 1, 3]);
    expect(bucket.keys).not.toContain('idempotency/a');
    expect(warnings).toEqual([]);
  });

  it('compacts again every hour', async () => {
    const { taken } = replica();
    await pass(10 * MINUTE_MS);
    await fill(YESTERDAY);
    await pass(65 * MINUTE_MS);
    expect(taken.turns).toBe(2);
    expect(segments(YESTERDAY)).toBe(1);
  });

  it('shares turns with other replicas, one turn an hour', async () => {
    const all = [replica(), replica(), replica()];
    const turns = () => all.reduce((sum, { taken }) => sum + taken.turns, 0);
    await pass(10 * MINUTE_MS);
    expect(turns()).toBe(1);
    await pass(65 * MINUTE_MS);
    expect(turns()).toBe(2);
  });

  it('takes the turn of a crashed replica an hour later', async () => {
    await bucket.create('compaction/turn', Buffer.from('{}'));
    const { taken } = replica();
    await pass(10 * MINUTE_MS);
    expect(taken.turns).toBe(0);
    await pass(65 * MINUTE_MS);
    expect(taken.turns).toBe(1);
  });

  it('finishes the compaction of any day that another process left unfinished', async () => {
    await fill(BEFORE);
    const lost = bucket.another();
    lost.before = (operation) => {
      if (operation === 'upload') throw new Error('lost');
    };
    await expect(compactDay(lost, 'nowcast', '2026-03-03')).rejects.toThrow('lost');
    replica();
    await pass(10 * MINUTE_MS);
    await pass(65 * MINUTE_MS);
    expect(segments(BEFORE)).toBe(1);
  });

  it.each([
    ['a day', 'read', 'compaction/kind=historical/date=2026-03-10', 'Compacting historical of 2026-03-10', [3, 1]],
    ['the claims', 'list', 'idempotency/', 'Removing old claims', [1, 1]],
    ['the turn', 'read', 'compaction/turn', 'Taking the turn of compaction', [3, 3]],
  ] as const)('warns when %s cannot be read, does the rest, and retries in the next turn', async (_, failing, path, what, left) => {
    await fill(YESTERDAY, WEEK_AGO);
    const { own } = replica();
    own.before = (operation, key) => {
      if (operation === failing && key === path) throw new Error('The store is down.');
    };
    await pass(10 * MINUTE_MS);
    expect(warnings).toEqual([`${what} failed; retrying at the next turn.`]);
    expect([YESTERDAY, WEEK_AGO].map(segments)).toEqual(left);
    own.before = () => undefined;
    await pass(65 * MINUTE_MS);
    expect([YESTERDAY, WEEK_AGO].map(segments)).toEqual([1, 1]);
    expect(warnings).toHaveLength(1);
  });

  it('warns about segments that it leaves alone', async () => {
    await fill(YESTERDAY);
    const torn = `${YESTERDAY}${uuidAt(new Date('2026-03-10'))}.ndjson`;
    const earlier = bucket.another();
    earlier.aheadMs = -HOUR_MS;
    await earlier.create(torn, Buffer.from('{'));
    replica();
    await pass(10 * MINUTE_MS);
    expect(warnings).toEqual([`${torn} is left alone by compaction: its last line has no newline.`]);
  });

  it('stops in the middle of a turn when it is closed, and starts no other', async () => {
    await fill(YESTERDAY, WEEK_AGO);
    const { own, compactor } = replica();
    const closed = new Promise<void>((resolve, reject) => {
      own.before = (operation) => {
        if (operation === 'upload') compactor.close().then(resolve, reject);
      };
    });
    await vi.advanceTimersByTimeAsync(10 * MINUTE_MS);
    await closed;
    expect(vi.getTimerCount()).toBe(0);
    expect(segments(WEEK_AGO)).toBe(3);
    expect(warnings).toEqual([]);
  });

  it('starts no turn after it is closed', async () => {
    const { compactor, taken } = replica();
    await compactor.close();
    await vi.advanceTimersByTimeAsync(2 * HOUR_MS);
    expect(taken.turns).toBe(0);
  });
});
