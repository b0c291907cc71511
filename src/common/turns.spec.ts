import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Turns } from './turns.js';

describe('Turns', () => {
  beforeEach(() => {
    // Each call of `performance.now()` advances the time by a millisecond, so that a turn has a known number of steps.
    let now = 0;
    vi.spyOn(performance, 'now').mockImplementation(() => now++);
  });
  afterEach(() => {
    vi.restoreAllMocks();
  });

  const job = async (name: string, steps: number, events: string[]): Promise<void> => {
    const turns = new Turns();
    for (let step = 0; step < steps; step++) {
      if (turns.isOver) await turns.next();
      events.push(name);
    }
  };
  /** Stands for other work than jobs: records the event `others` in each iteration of the event loop. */
  const watch = (events: string[]): NodeJS.Immediate =>
    setImmediate(() => {
      events.push('others');
      watched = watch(events);
    });
  let watched: NodeJS.Immediate;

  it('yields to other work after a few steps of a job', async () => {
    const events: string[] = [];
    watched = watch(events);
    await job('job', 40, events);
    clearImmediate(watched);
    const stretches = events.join(' ').split('others').map((stretch) => stretch.split('job').length - 1);
    expect(Math.max(...stretches)).toBeLessThanOrEqual(5);
    expect(stretches.reduce((sum, steps) => sum + steps)).toBe(40);
  });

  it('grants one turn in each iteration of the event loop, to each job in rotation', async () => {
    const events: string[] = [];
    watched = watch(events);
    await Promise.all(['a', 'b', 'c'].map((name) => job(name, 12, events)));
    clearImmediate(watched);
    const stretches = events.join('').split('others').filter((stretch) => stretch !== '');
    expect(stretches.every((stretch) => /^(a+|b+|c+)$/.test(stretch))).toBe(true);
    expect(stretches.slice(0, 6).map(([name]) => name)).toEqual(['a', 'b', 'c', 'a', 'b', 'c']);
  });
});
