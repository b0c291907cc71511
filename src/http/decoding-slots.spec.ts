import { EventEmitter } from 'node:events';
import { setImmediate as nextIteration } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { DecodingSlots } from './decoding-slots.js';

describe('DecodingSlots', () => {
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  /**
   * Requests a slot for each of `count` bodies, and records in `begun` the order in which the bodies get their slots.
   * `end` frees the slot of one body.
   */
  function ask(count: number) {
    const slots = new DecodingSlots();
    const begun: number[] = [];
    const connections = Array.from({ length: count }, () => new EventEmitter());
    const ends = connections.map(async (connection, body) => {
      const end = await slots.take(connection);
      begun.push(body);
      return end;
    });
    const end = async (body: number) => {
      (await ends[body])?.();
      await nextIteration();
    };
    return { slots, connections, ends, begun, end };
  }

  it('lets four bodies begin, and then alternately the oldest and the newest', async () => {
    const { begun, end } = ask(8);
    await nextIteration();
    expect(begun).toEqual([0, 1, 2, 3]);
    for (const body of [0, 1, 1, 2, 3]) await end(body);
    expect(begun).toEqual([0, 1, 2, 3, 4, 7, 5, 6]);
    for (const body of [4, 5, 6, 7]) await end(body);
    expect(vi.getTimerCount()).toBe(0);
  });

  it('forgets a body whose connection is lost before its turn', async () => {
    const { slots, connections, ends, begun, end } = ask(6);
    await nextIteration();
    const lost = expect(ends[4]).rejects.toMatchObject({ kind: 'client-aborted' });
    connections[4]?.emit('close');
    await lost;
    expect(slots.waitingCount).toBe(1);
    await end(0);
    expect(begun).toEqual([0, 1, 2, 3, 5]);
    expect(connections.map((connection) => connection.listenerCount('close'))).toEqual([0, 0, 0, 0, 0, 0]);
  });

  it('lets one more body begin for each that takes over two seconds', async () => {
    const { begun, end } = ask(9);
    await nextIteration();
    vi.advanceTimersByTime(2_000);
    await nextIteration();
    expect(begun).toHaveLength(8);
    for (const body of [0, 1, 2, 3]) await end(body);
    expect(begun).toHaveLength(8);
  });
});
