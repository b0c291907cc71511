import { EventEmitter } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { FREE_BYTES, MemoryBudget } from '../common/memory-budget.js';
import { KIB } from '../common/sizes.js';
import { BodyMemory } from './body-memory.js';
import { ClientRate } from './client-rate.js';

const request = { socket: new EventEmitter() } as unknown as IncomingMessage;

/** Simulates a client that sends `bytesPerSecond` bytes in each second. */
function send(rate: ClientRate, bytesPerSecond: number, seconds = 60): void {
  for (let second = 0; second < seconds; second++) {
    rate.received(bytesPerSecond);
    rate.waited(1_000);
  }
}

describe('ClientRate', () => {
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ['performance'] });
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  /**
   * Creates a memory budget, and the memory of a body in it. `holder` says what holds memory of the budget at first:
   * that body (`text`), part of a file (`part`) or nothing (`nobody`). If `isShort`, another body has waited for memory
   * for a second, so that memory counts as short.
   */
  function memoryOf(holder: 'text' | 'part' | 'nobody', isShort: boolean) {
    const budget = new MemoryBudget(1);
    const memory = new BodyMemory(request, budget);
    if (holder === 'text') void memory.growTo(FREE_BYTES + 1);
    if (holder === 'part') void budget.hold('part').grow(1);
    if (isShort) for (let body = 0; body < 3; body++) void budget.hold('text').grow(1);
    vi.advanceTimersByTime(1_000);
    return { budget, memory };
  }

  it.each([
    ['that sends nothing', 'text', 0],
    ['that sends 10 KiB/s', 'text', 10 * KIB],
    ['that sends 10 KiB/s of a file', 'part', 10 * KIB],
  ] as const)('rejects a client %s while others wait for memory', (_, holder, bytesPerSecond) => {
    const { budget, memory } = memoryOf(holder, true);
    const rate = new ClientRate(memory, budget);
    rate.received(100 * KIB);
    expect(() => { send(rate, bytesPerSecond); }).toThrow(expect.objectContaining({ kind: 'request-timeout' }));
  });

  it.each([
    ['nobody waits', 'text', false, 0],
    ['it keeps up', 'text', true, 20 * KIB],
    ['its file holds no memory', 'nobody', true, 0],
  ] as const)('does not reject a client when %s', (_, holder, isShort, bytesPerSecond) => {
    const { budget, memory } = memoryOf(holder, isShort);
    const rate = new ClientRate(memory, budget);
    rate.received(100 * KIB);
    expect(() => { send(rate, bytesPerSecond); }).not.toThrow();
  });

  it('rejects a client that keeps up when its text has kept memory from others for two minutes', () => {
    const { budget, memory } = memoryOf('text', true);
    const rate = new ClientRate(memory, budget);
    send(rate, 20 * KIB, 120);
    expect(() => { send(rate, 20 * KIB, 1); }).toThrow(expect.objectContaining({ kind: 'request-timeout' }));
  });

  it('adds up the times in which others wait, however many give up', () => {
    const { budget, memory } = memoryOf('text', false);
    const rate = new ClientRate(memory, budget);
    const waitOfOthers = () => {
      const others = [1, 2].map(() => budget.hold('text'));
      for (const other of others) void other.grow(1);
      vi.advanceTimersByTime(1_000);
      send(rate, 20 * KIB, 50);
      for (const other of others) other.release();
      send(rate, 20 * KIB, 50);
    };
    waitOfOthers();
    waitOfOthers();
    expect(waitOfOthers).toThrow(expect.objectContaining({ kind: 'request-timeout' }));
  });

  it('does not reject a client whose file has kept memory from others for an hour', () => {
    const { budget, memory } = memoryOf('part', true);
    const rate = new ClientRate(memory, budget);
    rate.received(100 * KIB);
    expect(() => { send(rate, 20 * KIB, 3_600); }).not.toThrow();
  });

  it('does not count the time before memory was short', () => {
    const { budget, memory } = memoryOf('text', false);
    const rate = new ClientRate(memory, budget);
    send(rate, 0);
    for (let body = 0; body < 3; body++) void budget.hold('text').grow(1);
    vi.advanceTimersByTime(1_000);
    expect(() => { rate.waited(4_000); }).not.toThrow();
    expect(() => { rate.waited(2_000); }).toThrow();
  });
});
