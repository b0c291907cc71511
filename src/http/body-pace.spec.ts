import { setImmediate as nextIteration } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { BodyPace } from './body-pace.js';

const MOST = 512 * 1024;
const CHUNK = 64 * 1024;

describe('BodyPace', () => {
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ['performance'] });
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  /**
   * Reports one new connection to the pace in each of `times` iterations of the event loop. Each iteration takes
   * `milliseconds` of the faked clock.
   */
  async function connect(pace: BodyPace, times: number, milliseconds = 1): Promise<void> {
    for (let connection = 0; connection < times; connection++) {
      pace.arrived();
      await nextIteration();
      vi.advanceTimersByTime(milliseconds);
    }
  }

  it('lets bodies use 512 KiB per iteration, in the order in which they ask', async () => {
    const pace = new BodyPace();
    const used: number[] = [];
    const bodies = Array.from({ length: 100 }, () => ({}));
    const done = Array.from({ length: 100 }, async (_, body) => {
      for (let bytes = 0; bytes < 2 * CHUNK; bytes += CHUNK) {
        await pace.next(bodies[body] ?? pace, CHUNK);
        used.push(body);
      }
    });
    const counts: number[] = [];
    for (let before = 0; used.length < 200; before = used.length) {
      await nextIteration();
      counts.push(used.length - before);
    }
    await Promise.all(done);
    expect(Math.max(...counts)).toBeLessThanOrEqual((2 * MOST) / CHUNK);
    expect(counts.length).toBeGreaterThanOrEqual(200 / (MOST / CHUNK) - 1);
    expect(used.slice(0, 100)).toEqual(Array.from({ length: 100 }, (_, body) => body));
  });

  it('delays no body when none of the others uses much and no connection arrives', async () => {
    const pace = new BodyPace();
    for (let iteration = 0; iteration < 5; iteration++) {
      for (let bytes = 0; bytes < MOST; bytes += CHUNK) expect(pace.next({}, CHUNK)).toBeUndefined();
      await nextIteration();
    }
  });

  it('lets a body use 2 MiB per iteration while no other body uses any', async () => {
    const pace = new BodyPace();
    const [one, other] = [{}, {}];
    for (let bytes = 0; bytes < 4 * MOST; bytes += CHUNK) expect(pace.next(one, CHUNK)).toBeUndefined();
    expect(pace.next(one, CHUNK)).toBeDefined();
    expect(pace.next(other, CHUNK)).toBeDefined();
    await nextIteration();
    // The waiting chunks of both bodies were granted in this iteration, so the limit for several bodies (MOST) holds.
    for (let bytes = 2 * CHUNK; bytes < MOST; bytes += CHUNK) expect(pace.next(other, CHUNK)).toBeUndefined();
    expect(pace.next(other, CHUNK)).toBeDefined();
  });

  it('delays bodies until no more connections arrive, and does so again for the next burst', async () => {
    const pace = new BodyPace();
    for (const burst of [20, 30]) {
      await connect(pace, 1);
      let mayContinue = false;
      const continued = pace.next({}, CHUNK)?.then(() => { mayContinue = true; });
      await connect(pace, burst);
      expect(mayContinue).toBe(false);
      await continued;
      expect([mayContinue, pace.next({}, CHUNK)]).toEqual([true, undefined]);
    }
  });

  it('delays bodies for at most 200 ms, and then not again for a second', async () => {
    const pace = new BodyPace();
    await connect(pace, 1);
    let mayContinue = false;
    void pace.next({}, CHUNK)?.then(() => { mayContinue = true; });
    await connect(pace, 30, 10);
    expect([mayContinue, pace.next({}, CHUNK)]).toEqual([true, undefined]);
    await connect(pace, 30, 10);
    expect(pace.next({}, CHUNK)).toBeUndefined();
    vi.advanceTimersByTime(1_000);
    pace.arrived();
    expect(pace.next({}, CHUNK)).toBeDefined();
  });
});
