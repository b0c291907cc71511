import { EventEmitter, once } from 'node:events';
import { expect, it } from 'vitest';
import { OneAtATime } from './one-at-a-time.js';

it('begins a job only after the earlier ones have ended, and in the order of the calls', async () => {
  const jobs = new OneAtATime();
  const signals = new EventEmitter();
  const events: string[] = [];
  const job = (name: string) => (): Promise<string> => {
    events.push(`${name} begins`);
    return Promise.resolve(name);
  };
  const begun = once(signals, 'begun');
  const first = jobs.run(async () => {
    signals.emit('begun');
    await once(signals, 'go');
    events.push('first ends');
    return 'first';
  });
  const later = [jobs.run(job('second')), jobs.run(job('third'))];
  await begun;
  expect(events).toEqual([]);
  signals.emit('go');
  expect(await Promise.all([first, ...later])).toEqual(['first', 'second', 'third']);
  expect(events).toEqual(['first ends', 'second begins', 'third begins']);
});

it('runs a job after an earlier one has failed', async () => {
  const jobs = new OneAtATime();
  const failed = jobs.run(() => Promise.reject(new Error('no space')));
  const later = jobs.run(() => Promise.resolve('done'));
  await expect(failed).rejects.toThrow('no space');
  expect(await later).toBe('done');
});
