import { EventEmitter } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { MemoryBudget } from '../common/memory-budget.js';
import { BodyMemory, HeldMemory } from './held-memory.js';

const request = () => ({ socket: Object.assign(new EventEmitter(), { destroyed: false }) }) as unknown as IncomingMessage;

const memoryOf = (bytes: number) => new BodyMemory(new MemoryBudget(2 * bytes), bytes);

/** A request's memory, and whether it has what it asked for. */
function ask(memory: BodyMemory, bytes: number, by = request()) {
  const held = new HeldMemory(by, memory);
  const state = { held, by, has: false, taking: Promise.resolve() };
  state.taking = held.take(bytes).then(() => { state.has = true; });
  return state;
}

describe('BodyMemory', () => {
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ['performance'] });
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  it('lets requests in while there is room, and the others in their order', async () => {
    const memory = memoryOf(10);
    const [first, second, third, fourth] = [ask(memory, 6), ask(memory, 4), ask(memory, 10), ask(memory, 1)];
    await Promise.all([first.taking, second.taking]);
    expect([third.has, fourth.has]).toEqual([false, false]);
    second.held.shrinkTo(0);
    first.held.shrinkTo(0);
    await third.taking;
    expect(fourth.has).toBe(false);
    third.held.shrinkTo(9);
    await fourth.taking;
  });

  it('gives no more than there is', async () => {
    const memory = memoryOf(10);
    await ask(memory, 11).taking;
    expect(ask(memory, 1).has).toBe(false);
  });

  it('forgets a request whose client hangs up, and lets the next one in', async () => {
    const memory = memoryOf(10);
    const first = ask(memory, 5);
    await first.taking;
    const [second, third] = [ask(memory, 10), ask(memory, 5)];
    second.by.socket.emit('close');
    await expect(second.taking).rejects.toMatchObject({ kind: 'client-aborted' });
    await third.taking;
    first.held.shrinkTo(0);
    third.held.shrinkTo(0);
    await ask(memory, 10).taking;
  });

  it('refuses a slow client when others wait, and no other', async () => {
    const memory = memoryOf(10);
    const [slow, quick] = [ask(memory, 5), ask(memory, 5)];
    await Promise.all([slow.taking, quick.taking]);
    slow.held.noteProgress(1_000, 60_000);
    const waiting = ask(memory, 5);
    vi.advanceTimersByTime(1_000);
    expect(() => { quick.held.noteProgress(10_000_000, 60_000); }).not.toThrow();
    expect(() => { slow.held.noteProgress(1, 0); }).toThrow(expect.objectContaining({ kind: 'request-timeout' }));
    slow.held.shrinkTo(0);
    await waiting.taking;
  });
});
