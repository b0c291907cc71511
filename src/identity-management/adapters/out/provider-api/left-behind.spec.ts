import { Logger } from '@nestjs/common';
import { afterEach, expect, it, vi } from 'vitest';
import { undocumentedMembers } from '../../../../../test/support/log-page.js';
import { ProviderUnavailable } from '../../../domain/errors.js';
import { LeftBehind, type Trace } from './left-behind.js';
import { Operation } from './operation.js';

afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

it('looks again for an item that was absent, even after several seconds, because its creation may still have been in progress', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  const leftBehind = new LeftBehind();
  let looks = 0;
  const remove = vi.fn(() => Promise.resolve(++looks === 5));
  void leftBehind.remove({ what: 'user', name: 'a@b.example', isUncertain: true, trace: {}, remove });
  await vi.advanceTimersByTimeAsync(8_500);
  expect(remove).toHaveBeenCalledTimes(5);
  await vi.advanceTimersByTimeAsync(60_000);
  expect(remove).toHaveBeenCalledTimes(5);
  leftBehind.close();
});

const absent = () => Promise.resolve(false);
const down = () => Promise.reject(new Error('down'));

it.each([
  ['looks for uncertain items one at a time, without delaying removals', true, absent],
  ['retries failed removals one at a time, without delaying the search for uncertain items', false, down],
])('%s', async (_, isUncertain, first) => {
  const leftBehind = new LeftBehind();
  let inFlight = 0;
  let most = 0;
  const ends: (() => void)[] = [];
  const look = (): Promise<boolean> => {
    most = Math.max(most, ++inFlight);
    return new Promise((resolve) => ends.push(() => {
      inFlight--;
      resolve(true);
    }));
  };
  /**
   * Lets `LeftBehind` remove a remnant: `first` is the first attempt, `further` the second. Resolves when the second is
   * over.
   */
  const removed = (isUncertain: boolean, first: () => Promise<boolean>, further: () => Promise<boolean>): Promise<void> =>
    new Promise((resolve) => {
      const attempts = [first, () => further().finally(resolve)];
      const remove = () => attempts.shift()?.() ?? Promise.resolve(true);
      void leftBehind.remove({ what: 'user', name: 'a@b.example', isUncertain, trace: {}, remove });
    });
  const looks = Array.from({ length: 3 }, () => removed(isUncertain, first, look));
  await removed(!isUncertain, isUncertain ? down : absent, () => Promise.resolve(true));
  for (let ended = 0; ended < 3; ended++) {
    await vi.waitFor(() => { expect(ends).toHaveLength(ended + 1); });
    ends[ended]?.();
  }
  await Promise.all(looks);
  expect(most).toBe(1);
  leftBehind.close();
});

it('undoes a creation whose caller gave up during the last step', async () => {
  const leftBehind = new LeftBehind();
  const controller = new AbortController();
  const remove = vi.fn(() => Promise.resolve(true));
  const created = leftBehind.allOrNothing({
    operation: new Operation(controller.signal),
    what: 'role',
    name: 'auditor',
    create: () => Promise.resolve('id'),
    complete: (id) => {
      controller.abort();
      return Promise.resolve(id);
    },
    undo: () => ({ trace: {}, remove }),
  });
  await expect(created).rejects.toThrow(ProviderUnavailable);
  expect(remove).toHaveBeenCalledTimes(1);
  leftBehind.close();
});

it('frees a name immediately, only from its own remnants, and no longer once they are removed', async () => {
  const leftBehind = new LeftBehind();
  const operation = new Operation();
  let isStuck = true;
  const remove = vi.fn(() => (isStuck ? down() : Promise.resolve(true)));
  await leftBehind.remove({ what: 'role', name: 'auditor', isUncertain: false, trace: {}, remove });
  await expect(leftBehind.free('role', 'auditor', operation)).rejects.toThrow('down');
  isStuck = false;
  const calls = remove.mock.calls.length;
  await leftBehind.free('user', 'auditor', operation);
  await leftBehind.free('role', 'Auditor', operation);
  expect(remove.mock.calls.length).toBe(calls);
  await leftBehind.free('role', 'auditor', operation);
  expect(remove.mock.calls.length).toBe(calls + 1);
  leftBehind.close();
});

it('logs each remnant once when it is closed, including those whose removal is in progress, waits, or begins later', async () => {
  const logged = vi.spyOn(Logger.prototype, 'error').mockReturnValue();
  vi.spyOn(Logger.prototype, 'warn').mockReturnValue();
  const leftBehind = new LeftBehind();
  const never = () => new Promise<boolean>(() => undefined);
  /** A remnant whose attempts are made by these functions, one after the other. */
  const remnant = (name: string, ...attempts: (() => Promise<boolean>)[]) =>
    ({ what: 'user', name, isUncertain: false, trace: { userId: name }, remove: () => (attempts.shift() ?? never)() }) as const;
  void leftBehind.remove(remnant('in progress', never));
  await leftBehind.remove(remnant('after a pause', down));
  leftBehind.close();
  await leftBehind.remove(remnant('later', down));
  await vi.waitFor(() => { expect(logged).toHaveBeenCalledTimes(3); });
  expect(logged.mock.calls.map(([entry]) => (entry as { userId: string }).userId)).toEqual(['in progress', 'after a pause', 'later']);
});

it('logs what it leaves with members that docs/log.md explains', async () => {
  const logged = vi.spyOn(Logger.prototype, 'error').mockReturnValue();
  vi.spyOn(Logger.prototype, 'warn').mockReturnValue();
  const trace: Required<Trace> = { userId: 'auth0|1', createdTimestamp: 1_795_421_882_859, description: 'Created by the load-data service' };
  const leftBehind = new LeftBehind();
  await leftBehind.remove({ what: 'user', name: 'a@b.example', isUncertain: false, trace, remove: down });
  leftBehind.close();
  const entries = logged.mock.calls.map(([entry]) => entry as object);
  expect(entries).toEqual([expect.objectContaining(trace)]);
  expect(await undocumentedMembers(entries)).toEqual([]);
});
