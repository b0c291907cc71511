import { describe, expect, it } from 'vitest';
import { MemoryBudget, type MemoryLine, type MemoryShare } from './memory-budget.js';

/** Those who wait for memory, in line; each is served with a `take`. */
class Line implements MemoryLine {
  readonly share: MemoryShare;
  private readonly waiting: number[] = [];
  private readonly since: number[] = [];
  served = 0;

  constructor(budget: MemoryBudget, mostBytes?: number) {
    this.share = budget.share(this, mostBytes);
  }

  get waitingSince(): number | undefined {
    return this.since[0];
  }

  ask(bytes: number, since = performance.now()): void {
    this.waiting.push(bytes);
    this.since.push(since);
    this.serve();
  }

  serve(): void {
    for (let [next] = this.waiting; next !== undefined && this.share.take(next); [next] = this.waiting) {
      this.waiting.shift();
      this.since.shift();
      this.served += 1;
    }
  }
}

describe('MemoryBudget', () => {
  it('gives all kinds of use together no more than there is', () => {
    const budget = new MemoryBudget(10);
    const [texts, parts] = [new Line(budget), new Line(budget)];
    for (let bytes = 0; bytes < 7; bytes++) parts.ask(1);
    texts.ask(3);
    texts.ask(1);
    expect([parts.served, texts.served]).toEqual([7, 1]);
    parts.share.give(1);
    expect(texts.served).toBe(2);
  });

  it('gives a kind of use no more than its most', () => {
    const texts = new Line(new MemoryBudget(10), 5);
    texts.ask(5);
    texts.ask(1);
    expect(texts.served).toBe(1);
  });

  it('keeps half of it for a kind of use that waits, however many of the other wait too', () => {
    const budget = new MemoryBudget(10);
    const [texts, parts] = [new Line(budget), new Line(budget)];
    for (let bytes = 0; bytes < 10; bytes++) parts.ask(1);
    for (let bytes = 0; bytes < 9; bytes++) parts.ask(1, 0);
    texts.ask(5);
    for (let given = 1; given <= 5; given++) {
      expect(texts.served).toBe(0);
      parts.share.give(1);
    }
    expect([texts.served, texts.share.usedBytes, parts.share.usedBytes]).toEqual([1, 5, 5]);
  });

  it('gives what is longer than half of it one by one', () => {
    const parts = new Line(new MemoryBudget(10));
    parts.ask(50);
    parts.ask(50);
    expect(parts.served).toBe(1);
    parts.share.give(50);
    expect(parts.served).toBe(2);
  });

  it('is short when somebody has waited for a second', () => {
    const budget = new MemoryBudget(10);
    const [texts, parts] = [new Line(budget), new Line(budget)];
    parts.ask(10);
    texts.ask(1);
    expect(budget.isShort).toBe(false);
    texts.ask(1, performance.now() - 1_000);
    expect(budget.isShort).toBe(false);
    parts.ask(1, performance.now() - 1_000);
    expect(budget.isShort).toBe(true);
  });
});
