import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { ProviderUnavailable } from '../../../domain/errors.js';
import type { RawAnswer } from './api-connections.js';
import { CallPace } from './call-pace.js';
import { JsonBody } from './json-body.js';

const LATENCY_MS = 20;

/** A provider with a token bucket, whose clock is the test's. */
class Bucket {
  served = 0;
  refused = 0;
  private tokens: number;
  private filledAt = Date.now();

  /** @param reset what the header of that name tells. */
  constructor(
    private readonly burst: number,
    private readonly perSecond: number,
    private readonly reset: 'when full' | 'next refill' | 'none' = 'when full',
  ) {
    this.tokens = burst;
  }

  /** @param headers besides its own, with a 429. */
  async answer(headers: Record<string, string> = {}): Promise<RawAnswer> {
    const isServed = this.take();
    if (isServed) this.served++;
    else this.refused++;
    const missing = this.reset === 'when full' ? this.burst - this.tokens : 1;
    const limits = {
      'x-ratelimit-limit': String(this.burst),
      'x-ratelimit-remaining': String(Math.floor(this.tokens)),
      'x-ratelimit-reset': String(Math.ceil(Date.now() / 1000 + missing / this.perSecond)),
    };
    await new Promise((resolve) => setTimeout(resolve, LATENCY_MS));
    return { status: isServed ? 200 : 429, headers: { ...(this.reset !== 'none' && limits), ...(!isServed && headers) }, body: new JsonBody() };
  }

  take(): boolean {
    this.tokens = Math.min(this.burst, this.tokens + ((Date.now() - this.filledAt) / 1000) * this.perSecond);
    this.filledAt = Date.now();
    if (this.tokens < 1) return false;
    this.tokens--;
    return true;
  }
}

const aSignal = (): AbortSignal => new AbortController().signal;
const ok: RawAnswer = { status: 200, headers: {}, body: new JsonBody() };

describe('the pace of calls', () => {
  beforeEach(() => vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval', 'Date', 'performance'] }));
  afterEach(() => vi.useRealTimers());

  /** How the operations end, each of so many calls. */
  async function outcomes(pace: CallPace, bucket: Bucket, operations: number, calls = 1): Promise<{ done: number; errors: ProviderUnavailable[] }> {
    const run = async () => {
      const signal = aSignal();
      for (let call = 0; call < calls; call++) await pace.run(signal, () => bucket.answer());
    };
    const settled = Promise.allSettled(Array.from({ length: operations }, run));
    await vi.advanceTimersByTimeAsync(20_000);
    const errors = (await settled).flatMap((result) => (result.status === 'rejected' ? [result.reason as ProviderUnavailable] : []));
    return { done: operations - errors.length, errors };
  }

  it.each<[number, number, number, number, number]>([
    // Burst, calls a second, operations, calls of each; how many come off at the least: what the limit gives in seven seconds, less some.
    [2, 2, 50, 1, 12],
    [2, 2, 50, 2, 6],
    [10, 2, 50, 1, 20],
    [15, 15, 50, 2, 50],
    [15, 15, 100, 2, 50],
    [50, 16, 100, 1, 100],
  ])('with a limit of %i, and %i a second, makes of %i operations of %i calls what it can, without a refusal, and ends each that it began', async (burst, perSecond, operations, calls, least) => {
    const bucket = new Bucket(burst, perSecond);
    const { done, errors } = await outcomes(new CallPace(), bucket, operations, calls);
    expect(done).toBeGreaterThanOrEqual(least);
    expect(bucket).toMatchObject({ refused: 0, served: done * calls });
    for (const error of errors) {
      expect(error).toBeInstanceOf(ProviderUnavailable);
      expect(error.retryAfterSeconds).toBeLessThan(10);
    }
  });

  it.each(['next refill', 'none'] as const)('makes all calls in the end, each once, where the header tells: %s', async (reset) => {
    const bucket = new Bucket(10, 15, reset);
    expect(await outcomes(new CallPace(), bucket, 50)).toEqual({ done: 50, errors: [] });
    expect(bucket.served).toBe(50);
  });

  it('makes all calls in the end, each once, while another process takes most of what there is', async () => {
    const bucket = new Bucket(10, 20);
    const other = setInterval(() => bucket.take(), 100);
    expect(await outcomes(new CallPace(), bucket, 40)).toEqual({ done: 40, errors: [] });
    clearInterval(other);
    expect(bucket.served).toBe(40);
  });

  it('waits for nobody where no limit is told', async () => {
    const pace = new CallPace();
    let underWay = 0;
    await pace.run(aSignal(), () => Promise.resolve(ok));
    const hanging = Array.from({ length: 50 }, () => pace.run(aSignal(), () => new Promise<RawAnswer>((resolve) => {
      underWay++;
      setTimeout(() => { resolve(ok); }, 1);
    })));
    await vi.advanceTimersByTimeAsync(0);
    expect(underWay).toBe(50);
    await vi.advanceTimersByTimeAsync(1);
    await Promise.all(hanging);
  });

  it('gives up at once where the provider wants a longer pause than a caller waits, also for those who come later', async () => {
    const [pace, bucket] = [new CallPace(), new Bucket(1, 0.001)];
    bucket.take();
    for (let time = 0; time < 2; time++) {
      const call = pace.run(aSignal(), () => bucket.answer({ 'retry-after': '60' }));
      const refused = expect(call).rejects.toMatchObject({ name: 'ProviderUnavailable', retryAfterSeconds: expect.toSatisfy((seconds: number) => seconds >= 59) as number });
      await vi.advanceTimersByTimeAsync(LATENCY_MS);
      await refused;
    }
    expect(bucket.refused).toBe(1);
  });

  it('lets go who waits no longer, and the next one on', async () => {
    const [pace, bucket] = [new CallPace(), new Bucket(1, 1)];
    await Promise.all([pace.run(aSignal(), () => bucket.answer()), vi.advanceTimersByTimeAsync(LATENCY_MS)]);
    const leaving = new AbortController();
    const left = pace.run(leaving.signal, () => bucket.answer());
    const next = pace.run(aSignal(), () => bucket.answer());
    leaving.abort();
    await expect(left).rejects.toThrow(ProviderUnavailable);
    await vi.advanceTimersByTimeAsync(5_000);
    expect((await next).status).toBe(200);
    expect(bucket.served).toBe(2);
  });

  it('begins nothing for whom has left already', async () => {
    const bucket = new Bucket(1, 1);
    await expect(new CallPace().run(AbortSignal.abort(), () => bucket.answer())).rejects.toThrow(ProviderUnavailable);
    expect(bucket.served).toBe(0);
  });

  it('goes on after a call that fails', async () => {
    const pace = new CallPace();
    for (let time = 0; time < 5; time++) await expect(pace.run(aSignal(), () => Promise.reject(new Error('down')))).rejects.toThrow('down');
    expect(await pace.run(aSignal(), () => Promise.resolve(ok))).toBe(ok);
  });
});
