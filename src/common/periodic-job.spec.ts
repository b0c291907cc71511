import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { PeriodicJob } from './periodic-job.js';

beforeEach(() => { vi.useFakeTimers(); });
afterEach(() => { vi.useRealTimers(); });

/** A job whose runs end when `end` is called, and which counts its runs. */
function countedJob() {
  const job = { begun: 0, ended: 0, end: (): void => undefined, run: (): Promise<void> => Promise.resolve() };
  job.run = async () => {
    job.begun += 1;
    await new Promise<void>((resolve) => { job.end = resolve; });
    job.ended += 1;
  };
  return job;
}

it('begins the first run after the delay, and each further one after the pause that follows a run', async () => {
  const job = countedJob();
  const pauses = [20, 30];
  const periodic = new PeriodicJob(job.run, () => pauses.shift() ?? Infinity);
  periodic.start(10);
  await vi.advanceTimersByTimeAsync(9);
  expect(job.begun).toBe(0);
  await vi.advanceTimersByTimeAsync(1);
  expect(job.begun).toBe(1);
  await vi.advanceTimersByTimeAsync(1_000);
  expect(job.begun).toBe(1);
  for (const pauseMs of [20, 30]) {
    const { begun } = job;
    job.end();
    await vi.advanceTimersByTimeAsync(pauseMs - 1);
    expect(job.begun).toBe(begun);
    await vi.advanceTimersByTimeAsync(1);
    expect(job.begun).toBe(begun + 1);
  }
});

it('begins the first run at once without a delay', () => {
  const job = countedJob();
  new PeriodicJob(job.run, () => 10).start(0);
  expect(job.begun).toBe(1);
});

it('aborts the signal of the run in progress when it is closed, waits for the run, and begins no other', async () => {
  const job = countedJob();
  const periodic = new PeriodicJob(job.run, () => 10);
  periodic.start(0);
  let isClosed = false;
  const closing = periodic.close().then(() => { isClosed = true; });
  expect(periodic.signal.aborted).toBe(true);
  await vi.advanceTimersByTimeAsync(100);
  expect(isClosed).toBe(false);
  job.end();
  await closing;
  expect(job.ended).toBe(1);
  expect(vi.getTimerCount()).toBe(0);
});

it('begins no run when it is closed before the first', async () => {
  const job = countedJob();
  const periodic = new PeriodicJob(job.run, () => 10);
  periodic.start(10);
  await periodic.close();
  await vi.advanceTimersByTimeAsync(100);
  expect(job.begun).toBe(0);
});
