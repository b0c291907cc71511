import { serialize } from 'node:v8';
import type { ThrottlerStorage } from '@nestjs/throttler';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { MINUTE_MS } from '../common/durations.js';
import { rateLimit } from './rate-limit.js';

describe('the counts of the rate limit', () => {
  let counts: ThrottlerStorage;
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ['performance', 'Date'] });
    const { storage } = rateLimit(1) as { storage?: ThrottlerStorage };
    if (!storage) expect.fail('The rate limit uses the storage of @nestjs/throttler.');
    counts = storage;
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  /** Counts a request. Resolves to the seconds for which its client is blocked; 0 if the request is allowed. */
  async function blockedFor(limit: number, client = 'a'): Promise<number> {
    const { isBlocked, timeToBlockExpire } = await counts.increment(client, MINUTE_MS, limit, MINUTE_MS, 'address');
    expect(isBlocked).toBe(timeToBlockExpire > 0);
    return timeToBlockExpire;
  }
  const wait = (seconds: number): void => void vi.advanceTimersByTime(seconds * 1000);

  it('blocks a client that exceeds the limit for a minute from then on, and counts from 0 afterwards', async () => {
    const seen: number[] = [];
    for (const seconds of [0, 0.5, 20, 0, 0.1, 1.5, 57.4, 0.9, 0.1, 0, 0, 0]) {
      wait(seconds);
      seen.push(await blockedFor(3));
    }
    expect(seen).toEqual([0, 0, 0, 60, 60, 59, 1, 1, 0, 0, 0, 60]);
    expect(await blockedFor(3, 'b')).toBe(0);
  });

  it('never blocks a client that keeps to the limit, and blocks it when it sends one request more within a minute', async () => {
    for (let request = 0; request < 500; request++) {
      expect(await blockedFor(6)).toBe(0);
      wait(10);
    }
    expect(await blockedFor(6)).toBe(0);
    expect(await blockedFor(6)).toBe(60);
  });

  it('counts the requests of the last minute only, after any pause', async () => {
    for (const pause of [60, 61, 120, 3_600]) {
      for (let request = 0; request < 3; request++) expect(await blockedFor(5)).toBe(0);
      wait(pause);
    }
  });

  it('needs no more for a client with many requests than for one with a few, and nothing for one that has gone', async () => {
    for (let second = 0; second < 90; second++) {
      for (let request = 0; request < 500; request++) await counts.increment('a', MINUTE_MS, 1_000_000, MINUTE_MS, 'address');
      wait(1);
    }
    expect(serialize(counts).length).toBeLessThan(5_000);
    for (let client = 0; client < 10_000; client++) await blockedFor(1, `client ${client}`);
    for (let minute = 0; minute < 2; minute++) {
      wait(60);
      await blockedFor(1_000);
    }
    expect(serialize(counts).length).toBeLessThan(1_000);
  });
});
