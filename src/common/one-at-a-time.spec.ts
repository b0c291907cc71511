import { setImmediate as nextIteration } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { OneAtATime } from './one-at-a-time.js';

/** A job that ends when it is told to, and records its beginning and its end. */
function job(name: string, events: string[]) {
  let end = (): void => undefined;
  let fail = (): void => undefined;
  const result = new Promise<string>((resolve, reject) => {
    end = () => { resolve(name); };
    fail = () => { reject(new Error(name)); };
  });
  const run = (): Promise<string> => {
    events.push(`${name} begins`);
    return result.finally(() => events.push(`${name} ends`));
  };
  return { run, end, fail };
}

it('starts a job only after the call, even if there is no other', async () => {
  const events: string[] = [];
  void new OneAtATime().run(job('a', events).run);
  expect(events).toEqual([]);
  await nextIteration();
  expect(events).toEqual(['a begins']);
});

it('runs jobs one at a time, in the order of the calls, and settles as they do', async () => {
  const [jobs, events] = [new OneAtATime(), [] as string[]];
  const [a, b, c, d] = [job('a', events), job('b', events), job('c', events), job('d', events)];
  const results = [a, b, c].map(({ run }) => jobs.run(run));
  b.end();
  c.end();
  await nextIteration();
  expect(events).toEqual(['a begins']);
  a.fail();
  // Called at the moment at which the next job gets its turn.
  const last = results[0]?.catch(() => jobs.run(d.run));
  d.end();
  expect(await Promise.allSettled(results)).toMatchObject([{ reason: new Error('a') }, { value: 'b' }, { value: 'c' }]);
  expect(await last).toBe('d');
  expect(events).toEqual(['a', 'b', 'c', 'd'].flatMap((name) => [`${name} begins`, `${name} ends`]));
});

it('lets the caller of a job go on before the next job starts', async () => {
  const [jobs, events] = [new OneAtATime(), [] as string[]];
  const first = jobs.run(() => undefined).then(() => events.push('first is over'));
  const second = jobs.run(() => events.push('second begins'));
  await Promise.all([first, second]);
  expect(events).toEqual(['first is over', 'second begins']);
});

it('rejects when a job throws, and runs the next one', async () => {
  const jobs = new OneAtATime();
  const failed = jobs.run(() => { throw new Error('no space'); });
  const later = jobs.run(() => 'done');
  await expect(failed).rejects.toThrow('no space');
  expect(await later).toBe('done');
});

it('ends the wait of a job whose signal aborts, and runs the remaining jobs', async () => {
  const [jobs, events] = [new OneAtATime(), [] as string[]];
  const [a, b, c] = [job('a', events), job('b', events), job('c', events)];
  const abort = new AbortController();
  const gone = new Error('The caller has gone.');
  const first = jobs.run(a.run, abort.signal);
  const second = jobs.run(b.run, abort.signal);
  const third = jobs.run(c.run);
  abort.abort(gone);
  await expect(second).rejects.toBe(gone);
  await expect(jobs.run(b.run, abort.signal)).rejects.toBe(gone);
  a.end();
  c.end();
  expect(await Promise.all([first, third])).toEqual(['a', 'c']);
  expect(events).toEqual(['a begins', 'a ends', 'c begins', 'c ends']);
});
