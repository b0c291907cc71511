import { EventEmitter } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { describe, expect, it } from 'vitest';
import { FREE_BYTES, MemoryBudget } from '../common/memory-budget.js';
import { MIB } from '../common/sizes.js';
import { BodyMemory } from './body-memory.js';

const clientOf = () => ({ socket: Object.assign(new EventEmitter(), { destroyed: false }) }) as unknown as IncomingMessage;

/**
 * Creates a memory budget that is used up, so that another body has to wait. The body `all` uses the whole budget, and
 * the body `favoured` exceeds it. Only one body at a time may exceed the budget.
 */
function usedUp() {
  const budget = new MemoryBudget(MIB);
  const [all, favoured] = [new BodyMemory(clientOf(), budget), new BodyMemory(clientOf(), budget)];
  void all.growTo(MIB + FREE_BYTES);
  void favoured.growTo(MIB);
  return { budget, all };
}

describe('BodyMemory', () => {
  it('requests no memory below 64 KiB, and releases all that it holds', () => {
    const budget = new MemoryBudget(MIB);
    const memory = new BodyMemory(clientOf(), budget);
    expect([memory.growTo(FREE_BYTES), budget.usedFor('text'), memory.isHeld]).toEqual([undefined, 0, false]);
    expect([memory.growTo(FREE_BYTES + 300_000), budget.usedFor('text'), memory.isHeld]).toEqual([undefined, 300_000, true]);
    memory.shrinkTo(FREE_BYTES + 1);
    expect(budget.usedFor('text')).toBe(1);
    memory.release();
    expect([budget.usedFor('text'), memory.isHeld]).toEqual([0, false]);
  });

  it('does not delay small bodies while others use up the budget', () => {
    const { budget } = usedUp();
    expect(new BodyMemory(clientOf(), budget).growTo(FREE_BYTES)).toBeUndefined();
  });

  it('waits until memory is available', async () => {
    const { budget, all } = usedUp();
    const waiting = new BodyMemory(clientOf(), budget).growTo(2 * FREE_BYTES);
    all.release();
    await waiting;
    expect(budget.usedFor('text')).toBe(MIB - FREE_BYTES + FREE_BYTES);
  });

  it('fails and leaves the queue when the client disconnects', async () => {
    const { budget, all } = usedUp();
    const client = clientOf();
    const memory = new BodyMemory(client, budget);
    const waiting = memory.growTo(2 * FREE_BYTES);
    Object.assign(client.socket, { destroyed: true });
    client.socket.emit('close');
    await expect(waiting).rejects.toMatchObject({ kind: 'client-aborted' });
    all.release();
    expect(memory.isHeld).toBe(false);
  });

  it('reserves six bytes for each character of a long text, because its line may be that long', () => {
    const budget = new MemoryBudget(MIB);
    const memory = new BodyMemory(clientOf(), budget);
    expect([memory.growForLine('x'.repeat(FREE_BYTES)), budget.usedFor('line')]).toEqual([undefined, 0]);
    expect([memory.growForLine('x'.repeat(100_000)), budget.usedFor('line')]).toEqual([undefined, 600_000]);
    memory.release();
    expect(budget.usedFor('line')).toBe(0);
  });

  it('does not wait for texts after a file, because texts may wait for the memory of that file', () => {
    const { budget } = usedUp();
    const memory = new BodyMemory(clientOf(), budget);
    memory.passFile();
    void memory.growTo(2 * FREE_BYTES);
    expect(budget.usedFor('rest')).toBe(FREE_BYTES);
  });
});
