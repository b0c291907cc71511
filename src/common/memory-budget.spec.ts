import { setImmediate as nextIteration } from 'node:timers/promises';
import { describe, expect, it, vi } from 'vitest';
import { MemoryBudget, type MemoryUse } from './memory-budget.js';

/** Requests memory for a body. `has` of the result becomes true when the memory is granted. */
function ask(budget: MemoryBudget, use: MemoryUse, bytes: number, held = budget.hold(use)) {
  const state = { held, has: held.tryGrow(bytes) };
  if (!state.has) void held.grow(bytes).then(() => { state.has = true; });
  return state;
}

const granted = async (...asked: { has: boolean }[]) => {
  await nextIteration();
  return asked.map(({ has }) => has);
};

describe('MemoryBudget', () => {
  it('grants all uses together no more than the budget, except to one waiting request of each use', async () => {
    const budget = new MemoryBudget(10);
    const parts = ask(budget, 'part', 7);
    const text = ask(budget, 'text', 3);
    const waiting = [ask(budget, 'text', 1), ask(budget, 'text', 1), ask(budget, 'part', 1), ask(budget, 'part', 1), ask(budget, 'rest', 1)];
    expect(await granted(parts, text, ...waiting)).toEqual([true, true, true, false, true, false, true]);
    text.held.release();
    expect(await granted(...waiting)).toEqual([true, false, true, false, true]);
    parts.held.release();
    expect(await granted(...waiting)).toEqual([true, true, true, true, true]);
    expect(['text', 'part', 'rest'].map((use) => budget.usedFor(use as MemoryUse))).toEqual([2, 2, 1]);
  });

  it('grants more to the one holder above the budget until it has released everything', async () => {
    const budget = new MemoryBudget(10);
    ask(budget, 'text', 10);
    const favoured = ask(budget, 'text', 1);
    const other = ask(budget, 'text', 1);
    expect(await granted(favoured, other, ask(budget, 'text', 50, favoured.held))).toEqual([true, false, true]);
    favoured.held.shrinkTo(1);
    expect(await granted(other)).toEqual([false]);
    favoured.held.release();
    expect(await granted(other)).toEqual([true]);
  });

  it('serves alternately the request that has waited longest and the one that has waited least', async () => {
    const budget = new MemoryBudget(10);
    const order: string[] = [];
    ask(budget, 'part', 10);
    const waiting = ['1', '2', '3', '4', '5'].map(async (name) => {
      const held = budget.hold('part');
      await held.grow(1);
      order.push(name);
      held.release();
    });
    await Promise.all(waiting);
    expect(order).toEqual(['1', '5', '2', '4', '3']);
  });

  it('forgets a request that is no longer waiting', async () => {
    const budget = new MemoryBudget(10);
    const [first] = [ask(budget, 'text', 10), ask(budget, 'text', 1)];
    const leaving = ask(budget, 'text', 1);
    leaving.held.release();
    expect(await granted(leaving)).toEqual([true]);
    const next = ask(budget, 'text', 1);
    first.held.release();
    expect(await granted(next)).toEqual([true]);
    expect(budget.usedFor('text')).toBe(2);
  });

  it('grants memory to a request that fits as soon as a larger one whose turn it is stops waiting', async () => {
    const budget = new MemoryBudget(10);
    ask(budget, 'text', 8);
    const favoured = ask(budget, 'text', 5);
    favoured.held.shrinkTo(2);
    const small = ask(budget, 'text', 1);
    const large = ask(budget, 'text', 5);
    favoured.held.shrinkTo(1);
    expect(await granted(small, large)).toEqual([false, false]);
    large.held.release();
    expect(await granted(small)).toEqual([true]);
    expect(budget.usedFor('text')).toBe(10);
  });

  it('reports that memory is short when a request has waited for a second', () => {
    vi.useFakeTimers({ toFake: ['performance'] });
    try {
      const budget = new MemoryBudget(10);
      ask(budget, 'part', 10);
      ask(budget, 'part', 1);
      vi.advanceTimersByTime(2_000);
      expect(budget.isShort).toBe(false);
      ask(budget, 'part', 1);
      expect(budget.isShort).toBe(false);
      vi.advanceTimersByTime(1_000);
      expect(budget.isShort).toBe(true);
    } finally {
      vi.useRealTimers();
    }
  });
});
