import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { ProviderUnavailable } from '../../../domain/errors.js';
import type { RawAnswer } from './api-connections.js';
import { CallPace } from './call-pace.js';
import { ListOperations, Operation } from './operation.js';

const LATENCY_MS = 20;
/** The time at which each test begins. Not a whole second, because the headers that are tested have whole seconds. */
const NOW = Date.UTC(2026, 0, 1) + 300;

/** A simulated provider that limits calls with a token bucket. */
class Bucket {
  served = 0;
  refused = 0;
  private tokens: number;
  private filledAt = Date.now();

  /**
   * @param burst the size of the bucket, in calls.
   * @param perSecond how many calls are added to the bucket per second.
   * @param reset what the header x-ratelimit-reset reports: when the bucket is full, or when it gets its next call.
   * `none`: the answers have no rate limit headers.
   * @param clockAheadMs how far the provider's clock is ahead of the service's, in milliseconds.
   */
  constructor(
    private readonly burst: number,
    private readonly perSecond: number,
    private readonly reset: 'when full' | 'next refill' | 'none' = 'when full',
    private readonly clockAheadMs = 0,
  ) {
    this.tokens = burst;
  }

  /** Answers a call, or refuses it with 429. `headers` are added to a 429. */
  async answer(headers: Record<string, string> = {}): Promise<RawAnswer> {
    const isServed = this.take();
    if (isServed) this.served++;
    else this.refused++;
    const missing = this.reset === 'when full' ? this.burst - this.tokens : 1;
    const now = Date.now() + this.clockAheadMs;
    const limits = {
      date: new Date(now).toUTCString(),
      'x-ratelimit-limit': String(this.burst),
      'x-ratelimit-remaining': String(Math.floor(this.tokens)),
      'x-ratelimit-reset': String(Math.ceil(now / 1000 + missing / this.perSecond)),
    };
    await new Promise((resolve) => setTimeout(resolve, LATENCY_MS));
    return { status: isServed ? 200 : 429, headers: { ...(this.reset !== 'none' && limits), ...(!isServed && headers) }, text: '' };
  }

  take(): boolean {
    this.tokens = Math.min(this.burst, this.tokens + ((Date.now() - this.filledAt) / 1000) * this.perSecond);
    this.filledAt = Date.now();
    if (this.tokens < 1) return false;
    this.tokens--;
    return true;
  }
}

const aList = (): ListOperations => new ListOperations(new AbortController().signal);
const after = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
function abortedAfter(ms: number): AbortSignal {
  const controller = new AbortController();
  setTimeout(() => { controller.abort(); }, ms);
  return controller.signal;
}
const ok: RawAnswer = { status: 200, headers: {}, text: '' };

describe('the pace of calls', () => {
  beforeEach(() => vi.useFakeTimers({ now: NOW, toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval', 'Date', 'performance'] }));
  afterEach(() => vi.useRealTimers());

  /**
   * Runs simultaneous operations, each of which makes `calls` calls. Returns the number of operations that succeeded,
   * and the errors of the others.
   */
  async function outcomes(pace: CallPace, bucket: Bucket, operations: number, calls = 1): Promise<{ done: number; errors: ProviderUnavailable[] }> {
    const run = async () => {
      const operation = new Operation();
      for (let call = 0; call < calls; call++) await pace.run(operation, () => bucket.answer());
    };
    const settled = Promise.allSettled(Array.from({ length: operations }, run));
    await vi.advanceTimersByTimeAsync(20_000);
    const errors = (await settled).flatMap((result) => (result.status === 'rejected' ? [result.reason as ProviderUnavailable] : []));
    return { done: operations - errors.length, errors };
  }

  /** Starts operations, `perSecond` a second, until `stop` is called. Each operation makes `calls` calls. */
  function storm(pace: CallPace, bucket: Bucket, perSecond: number, calls = 1): { ended: { done: number; failed: number }; stop: () => void } {
    const ended = { done: 0, failed: 0 };
    const run = async () => {
      const operation = new Operation();
      for (let call = 0; call < calls; call++) await pace.run(operation, () => bucket.answer());
    };
    const arrivals = setInterval(() => void run().then(() => ended.done++, () => ended.failed++), 1_000 / perSecond);
    return { ended, stop: () => { clearInterval(arrivals); } };
  }

  it.each<[number, number, number, number, number]>([
    // Each row: the bucket's size, the calls added per second, the number of operations, the calls per operation, and
    // the least number of operations that must succeed. The last is a bit less than the limit allows in six seconds.
    [2, 2, 50, 1, 11],
    [2, 2, 50, 2, 6],
    [10, 2, 50, 1, 20],
    [15, 15, 50, 2, 50],
    [15, 15, 100, 2, 50],
    [50, 16, 100, 1, 100],
  ])('with a burst of %i and %i calls a second, completes what it can of %i operations of %i calls, without a refusal, and completes each that it started', async (burst, perSecond, operations, calls, least) => {
    const bucket = new Bucket(burst, perSecond);
    const { done, errors } = await outcomes(new CallPace(), bucket, operations, calls);
    expect(done).toBeGreaterThanOrEqual(least);
    expect(bucket).toMatchObject({ refused: 0, served: done * calls });
    for (const error of errors) {
      expect(error).toBeInstanceOf(ProviderUnavailable);
      expect(error.retryAfterSeconds).toBeLessThan(10);
    }
  });

  it.each(['next refill', 'none'] as const)('makes all calls eventually, each once, when the header reports: %s', async (reset) => {
    const bucket = new Bucket(10, 15, reset);
    expect(await outcomes(new CallPace(), bucket, 50)).toEqual({ done: 50, errors: [] });
    expect(bucket.served).toBe(50);
  });

  it('makes all calls eventually, each once, while another process uses most of the limit', async () => {
    const bucket = new Bucket(10, 20);
    const other = setInterval(() => bucket.take(), 100);
    expect(await outcomes(new CallPace(), bucket, 40)).toEqual({ done: 40, errors: [] });
    clearInterval(other);
    expect(bucket.served).toBe(40);
  });

  describe.each([
    // `least`: how many of the arriving operations must succeed in 40 s, while the tested calls are made too. It is
    // about half of what the limit allows.
    { limit: 2, arrivals: 8, calls: 1, least: 40 },
    { limit: 2, arrivals: 4, calls: 5, least: 7 },
    { limit: 15, arrivals: 30, calls: 1, least: 300 },
    { limit: 15, arrivals: 8, calls: 5, least: 60 },
  ])('while $arrivals operations of $calls calls start each second and $limit calls a second are allowed', ({ limit, arrivals, calls, least }) => {
    it.each<[string, (call: (operation: Operation) => Promise<unknown>) => Promise<void>]>([
      ['of three started lists', async (call) => {
        const list = async (listOperations: ListOperations) => {
          for (let page = 0; page < 4; page++) await call(listOperations.next());
        };
        await Promise.all([list(aList()), list(aList()), list(aList())]);
      }],
      ['that are urgent, each within a second or two', async (call) => {
        for (let time = 0; time < 10; time++) {
          await call(new Operation(abortedAfter(2_000), 'urgent'));
          await after(2_000);
        }
      }],
      ['of an urgent operation with several calls', async (call) => {
        await after(10_000);
        const operation = new Operation(undefined, 'urgent');
        for (let time = 0; time < 5; time++) await call(operation);
      }],
    ])('makes all calls %s', async (_, work) => {
      const [pace, bucket] = [new CallPace(), new Bucket(limit, limit)];
      const outcome = expect(work((operation) => pace.run(operation, () => bucket.answer()))).resolves.toBeUndefined();
      const { ended, stop } = storm(pace, bucket, arrivals, calls);
      await vi.advanceTimersByTimeAsync(40_000);
      stop();
      await outcome;
      expect(ended.done).toBeGreaterThanOrEqual(least);
    });
  });

  it('shares the limit between two processes that both need more', async () => {
    const bucket = new Bucket(2, 2);
    const storms = [storm(new CallPace(), bucket, 5), storm(new CallPace(), bucket, 5)];
    await vi.advanceTimersByTimeAsync(120_000);
    for (const { ended, stop } of storms) {
      stop();
      expect(ended.done).toBeGreaterThan(bucket.served / 3);
    }
  });

  /**
   * Reads `count` lists simultaneously. Returns how many were read completely, how many failed at their first page, and
   * how many failed at a later page.
   */
  async function listsOf(pages: number, count: number, pace: CallPace, bucket: Bucket): Promise<{ whole: number; refused: number; broken: number }> {
    const ended = { whole: 0, refused: 0, broken: 0 };
    const list = async () => {
      const listOperations = aList();
      let page = 0;
      const read = async () => {
        for (; page < pages; page++) await pace.run(listOperations.next(), () => bucket.answer());
      };
      await read().then(() => ended.whole++, () => ended[page === 0 ? 'refused' : 'broken']++);
    };
    const all = Promise.all(Array.from({ length: count }, list));
    const areOver = () => ended.whole + ended.refused + ended.broken === count;
    for (let seconds = 0; seconds < 240 && !areOver(); seconds++) await vi.advanceTimersByTimeAsync(1_000);
    await all;
    return ended;
  }

  it.each([0, 0.3, 0.9])('completes a list of many pages while operations of five calls compete and get half of the limit, when Math.random() returns %f', async (chance) => {
    const random = vi.spyOn(Math, 'random').mockReturnValue(chance);
    onTestFinished(() => { random.mockRestore(); });
    const [pace, bucket] = [new CallPace(), new Bucket(2, 2)];
    const { ended, stop } = storm(pace, bucket, 4, 5);
    expect(await listsOf(30, 1, pace, bucket)).toEqual({ whole: 1, refused: 0, broken: 0 });
    stop();
    expect(ended.done * 5).toBeGreaterThan(bucket.served / 2);
  });

  it.each<[number, number, number]>([
    [2, 2, 30],
    [10, 2.5, 30],
    [40, 8.3, 100],
  ])('with a burst of %i and %f calls a second, completes each of %i simultaneous lists that it started', async (burst, perSecond, count) => {
    const { whole, refused, broken } = await listsOf(10, count, new CallPace(), new Bucket(burst, perSecond));
    expect({ ended: whole + refused, broken }).toEqual({ ended: count, broken: 0 });
    expect(whole).toBeGreaterThan(0);
  });

  it('lets no operation fail because of an endless list', async () => {
    const [pace, bucket] = [new CallPace(), new Bucket(2, 2)];
    const list = new AbortController();
    const listOperations = new ListOperations(list.signal);
    const listing = expect((async () => {
      for (;;) await pace.run(listOperations.next(), () => bucket.answer());
    })()).rejects.toThrow('The caller has given up.');
    const { ended, stop } = storm(pace, bucket, 1);
    await vi.advanceTimersByTimeAsync(60_000);
    stop();
    list.abort();
    // The aborted list may still have a call in flight. It ends within the latency.
    await vi.advanceTimersByTimeAsync(LATENCY_MS);
    await listing;
    expect(ended.failed).toBe(0);
    expect(ended.done).toBeGreaterThan(50);
  });

  it.each<[string, Partial<RawAnswer>]>([
    ['a limit is reached', { headers: { 'x-ratelimit-limit': '2', 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': String(Math.ceil(NOW / 1000)) } }],
    ['a call is refused', { status: 429 }],
  ])('spreads the moments at which waiting processes continue, after %s', async (_, first) => {
    const random = vi.spyOn(Math, 'random');
    onTestFinished(() => { random.mockRestore(); });
    const pauseMs = async (chance: number): Promise<number> => {
      vi.setSystemTime(NOW);
      random.mockReturnValue(chance);
      const pace = new CallPace();
      const sentAt: number[] = [];
      const send = (): Promise<RawAnswer> => Promise.resolve({ ...ok, ...(sentAt.push(performance.now()) === 1 && first) });
      const both = pace.run(new Operation(), send).then(() => pace.run(new Operation(), send));
      await vi.advanceTimersByTimeAsync(2_000);
      await both;
      const [begin = NaN, next = NaN] = sentAt;
      return next - begin;
    };
    expect(await pauseMs(0.9)).toBeGreaterThan(await pauseMs(0.1));
  });

  it.each([-3_600_000, -3_000, 3_000, 3_600_000])("keeps the pace when the provider's clock is %i ms ahead", async (clockAheadMs) => {
    const bucket = new Bucket(2, 2, 'when full', clockAheadMs);
    const { done, errors } = await outcomes(new CallPace(), bucket, 50);
    expect(done).toBeGreaterThanOrEqual(10);
    expect(bucket.refused).toBe(0);
    for (const { retryAfterSeconds } of errors) expect(retryAfterSeconds).toBeLessThan(10);
  });

  it('uses the limits of the latest call, whichever answer arrives first', async () => {
    const pace = new CallPace();
    const limits = (remaining: number) => ({ 'x-ratelimit-limit': '10', 'x-ratelimit-remaining': String(remaining), 'x-ratelimit-reset': String(Math.ceil(Date.now() / 1000) + 5) });
    await pace.run(new Operation(), () => Promise.resolve(ok));
    const answerAfter = async (ms: number, remaining: number): Promise<RawAnswer> => {
      await after(ms);
      return { ...ok, headers: limits(remaining) };
    };
    const slow = pace.run(new Operation(), () => answerAfter(200, 9));
    await vi.advanceTimersByTimeAsync(50);
    const quick = pace.run(new Operation(), () => answerAfter(50, 0));
    await vi.advanceTimersByTimeAsync(150);
    await Promise.all([slow, quick]);
    let isSent = false;
    const next = pace.run(new Operation(), () => {
      isSent = true;
      return Promise.resolve(ok);
    });
    await vi.advanceTimersByTimeAsync(100);
    expect(isSent).toBe(false);
    await vi.advanceTimersByTimeAsync(5_000);
    await next;
  });

  it('forgets an old limit, for example after a change of plan', async () => {
    const [pace, small, large] = [new CallPace(), new Bucket(2, 2), new Bucket(50, 16)];
    expect(await outcomes(pace, small, 5)).toMatchObject({ done: 5 });
    await vi.advanceTimersByTimeAsync(60_000);
    const calls = Array.from({ length: 20 }, () => pace.run(new Operation(), () => large.answer()));
    // In this time, all calls can be answered: first a few, whose answers report the new limit, and then all others.
    await vi.advanceTimersByTimeAsync(2 * LATENCY_MS);
    expect(large.served).toBe(20);
    await Promise.all(calls);
  });

  it('delays no call when no limit is reported', async () => {
    const pace = new CallPace();
    let inFlight = 0;
    await pace.run(new Operation(), () => Promise.resolve(ok));
    const hanging = Array.from({ length: 50 }, () => pace.run(new Operation(), () => new Promise<RawAnswer>((resolve) => {
      inFlight++;
      setTimeout(() => { resolve(ok); }, 1);
    })));
    await vi.advanceTimersByTimeAsync(0);
    expect(inFlight).toBe(50);
    await vi.advanceTimersByTimeAsync(1);
    await Promise.all(hanging);
  });

  it.each([
    ['60', 59],
    ['86400', 60],
  ])('gives up at once when the provider wants a pause of %s s, even for later calls, and tries again after a minute', async (retryAfter, told) => {
    const [pace, bucket] = [new CallPace(), new Bucket(1, 0.001)];
    bucket.take();
    const ask = async () => {
      const call = pace.run(new Operation(), () => bucket.answer({ 'retry-after': retryAfter }));
      const toldSeconds = expect.toSatisfy((seconds: number) => seconds >= told && seconds <= 60) as number;
      const refused = expect(call).rejects.toMatchObject({ name: 'ProviderUnavailable', retryAfterSeconds: toldSeconds });
      await vi.advanceTimersByTimeAsync(LATENCY_MS);
      await refused;
    };
    await ask();
    await ask();
    expect(bucket.refused).toBe(1);
    await vi.advanceTimersByTimeAsync(60_000);
    await ask();
    expect(bucket.refused).toBe(2);
  });

  it('pauses after each refusal, even when the provider wants a pause of 0 s', async () => {
    const pace = new CallPace();
    const sentAt: number[] = [];
    const refused: RawAnswer = { status: 429, headers: { 'retry-after': '0' }, text: '' };
    const call = pace.run(new Operation(), () => Promise.resolve(sentAt.push(performance.now()) < 5 ? refused : ok));
    await vi.advanceTimersByTimeAsync(5_000);
    expect(await call).toBe(ok);
    const pauses = sentAt.slice(1).map((time, index) => time - (sentAt[index] ?? NaN));
    expect(pauses).toHaveLength(4);
    for (const pauseMs of pauses) expect(pauseMs).toBeGreaterThan(100);
  });

  it('releases an abandoned call, and continues with the next', async () => {
    const [pace, bucket] = [new CallPace(), new Bucket(1, 1)];
    await Promise.all([pace.run(new Operation(), () => bucket.answer()), vi.advanceTimersByTimeAsync(LATENCY_MS)]);
    const leaving = new AbortController();
    const left = pace.run(new Operation(leaving.signal), () => bucket.answer());
    const next = pace.run(new Operation(), () => bucket.answer());
    leaving.abort();
    await expect(left).rejects.toThrow(ProviderUnavailable);
    await vi.advanceTimersByTimeAsync(5_000);
    expect((await next).status).toBe(200);
    expect(bucket.served).toBe(2);
  });

  it('keeps the calls behind one that is abandoned just as its turn comes', async () => {
    const [pace, bucket] = [new CallPace(), new Bucket(10, 10)];
    const leaving = new AbortController();
    const [first, , next] = [new Operation(), new Operation(leaving.signal), new Operation()].map((operation) => pace.run(operation, () => bucket.answer()));
    leaving.abort();
    await vi.advanceTimersByTimeAsync(5_000);
    expect(await Promise.all([first, next])).toMatchObject([{ status: 200 }, { status: 200 }]);
  });

  it('starts no call that is already aborted', async () => {
    const bucket = new Bucket(1, 1);
    await expect(new CallPace().run(new Operation(AbortSignal.abort()), () => bucket.answer())).rejects.toThrow(ProviderUnavailable);
    expect(bucket.served).toBe(0);
  });

  it('continues after a call that fails', async () => {
    const pace = new CallPace();
    for (let time = 0; time < 5; time++) await expect(pace.run(new Operation(), () => Promise.reject(new Error('down')))).rejects.toThrow('down');
    expect(await pace.run(new Operation(), () => Promise.resolve(ok))).toBe(ok);
  });
});
