import { setImmediate } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { ProviderUnavailable } from '../../../domain/errors.js';
import { WorkQueue } from './work-queue.js';

describe('WorkQueue', () => {
  /** Work that ends when it is told to, and records its beginning and its end. */
  const work = (name: string, events: string[]) => {
    let end = (): void => undefined;
    let fail = (): void => undefined;
    const result = new Promise<string>((resolve, reject) => {
      end = () => { resolve(name); };
      fail = () => { reject(new Error(name)); };
    });
    const run = () => {
      events.push(`${name} begins`);
      return result.finally(() => events.push(`${name} ends`));
    };
    return { run, end, fail };
  };

  it('starts work at once if there is no other', () => {
    const events: string[] = [];
    void new WorkQueue().run(work('a', events).run);
    expect(events).toEqual(['a begins']);
  });

  it('runs work one piece at a time, in the order of the calls, and settles like it', async () => {
    const [queue, events] = [new WorkQueue(), [] as string[]];
    const [a, b, c, d] = [work('a', events), work('b', events), work('c', events), work('d', events)];
    const results = [a, b, c].map(({ run }) => queue.run(run));
    b.end();
    c.end();
    await setImmediate();
    expect(events).toEqual(['a begins']);
    a.fail();
    // Called at the moment at which the next work gets its turn.
    const last = results[0]?.catch(() => queue.run(d.run));
    d.end();
    expect(await Promise.allSettled(results)).toMatchObject([{ reason: new Error('a') }, { value: 'b' }, { value: 'c' }]);
    expect(await last).toBe('d');
    expect(events).toEqual(['a', 'b', 'c', 'd'].flatMap((name) => [`${name} begins`, `${name} ends`]));
  });

  it('gives up waiting when the signal aborts, and runs the remaining work', async () => {
    const [queue, events] = [new WorkQueue(), [] as string[]];
    const [a, b, c] = [work('a', events), work('b', events), work('c', events)];
    const abort = new AbortController();
    const first = queue.run(a.run, abort.signal);
    const second = queue.run(b.run, abort.signal);
    const third = queue.run(c.run);
    abort.abort();
    await expect(second).rejects.toThrow(ProviderUnavailable);
    await expect(queue.run(b.run, abort.signal)).rejects.toThrow(ProviderUnavailable);
    a.end();
    c.end();
    expect(await Promise.all([first, third])).toEqual(['a', 'c']);
    expect(events).toEqual(['a begins', 'a ends', 'c begins', 'c ends']);
  });
});
