import { randomBytes } from 'node:crypto';
import { setImmediate as nextIteration } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { MemoryBudget } from '../../../../common/memory-budget.js';
import { KIB } from '../../../../common/sizes.js';
import { PartMemory } from './part-memory.js';
import { type PartTarget, sendParts } from './parts.js';

/** The length of a part, in bytes. It is more than an upload may hold without requesting memory. */
const PART = 256 * KIB;

/** A target of parts that keeps the bytes it is sent. */
class Store implements PartTarget {
  readonly parts: Buffer[] = [];
  whole: Buffer | undefined;
  /** Awaited before each part. */
  gate: Promise<unknown> = Promise.resolve();

  async sendPart(part: Buffer, index: number): Promise<void> {
    await this.gate;
    this.parts[index] = Buffer.from(part);
  }

  async sendWhole(bytes: Buffer): Promise<void> {
    await this.gate;
    this.whole = Buffer.from(bytes);
  }

  get bytes(): Buffer {
    return this.whole ?? Buffer.concat(this.parts);
  }
}

/** A client that sends chunks when `send` is called, and counts the bytes that were read from it. */
class Client implements AsyncIterable<Uint8Array> {
  taken = 0;
  private readonly chunks: (Uint8Array | Error | null)[] = [];
  private wake = (): void => undefined;

  send(...chunks: (Uint8Array | Error | null)[]): void {
    this.chunks.push(...chunks);
    this.wake();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array> {
    for (;;) {
      const chunk = this.chunks.shift();
      if (chunk === null) return;
      if (chunk instanceof Error) throw chunk;
      if (chunk) {
        this.taken += chunk.length;
        yield chunk;
      } else {
        await new Promise<void>((resolve) => (this.wake = resolve));
      }
    }
  }
}

const settled = async () => {
  for (let turn = 0; turn < 50; turn++) await nextIteration();
};
const pieces = (bytes: Buffer, length: number) =>
  Array.from({ length: Math.ceil(bytes.length / length) }, (_, index) => bytes.subarray(index * length, (index + 1) * length));

describe('sendParts', () => {
  const memory = (parts: number) => new PartMemory(PART, new MemoryBudget(parts * PART));
  const begin = (of: PartMemory, client: AsyncIterable<Uint8Array>, store: PartTarget = new Store()) =>
    sendParts(client, { memory: of, atOnce: 2 }, store).catch((error: unknown) => error);

  beforeEach(() => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] });
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  it.each([0, 1, 64 * KIB, 64 * KIB + 1, PART - 1, PART, PART + 1, 2 * PART, 3 * PART + 7])('sends %i bytes unchanged', async (size) => {
    const bytes = randomBytes(size);
    for (const length of [7_777, 300 * KIB]) {
      const store = new Store();
      const client = new Client();
      client.send(...pieces(bytes, length), null);
      const count = await begin(memory(2), client, store);
      expect(store.bytes.equals(bytes)).toBe(true);
      expect(count).toBe(size <= PART ? 0 : Math.ceil(size / PART));
    }
  });

  it('sends bytes that arrive one by one as a whole, while other clients use up the memory', async () => {
    const of = memory(1);
    const holder = new Client();
    void begin(of, holder);
    holder.send(randomBytes(100 * KIB));
    await settled();
    const small = new Client();
    const bytes = randomBytes(2_000);
    small.send(...pieces(bytes, 1), null);
    const store = new Store();
    expect(await begin(of, small, store)).toBe(0);
    expect(store.bytes.equals(bytes)).toBe(true);
    holder.send(new Error('gone'));
  });

  it('stops reading from a client while there is no memory for it, and continues when there is', async () => {
    const of = memory(2);
    // These clients take the memory of three parts, although the budget is that of two: one client may exceed the
    // budget.
    const holders = [new Client(), new Client(), new Client()];
    for (const holder of holders) {
      void begin(of, holder);
      holder.send(randomBytes(100 * KIB));
    }
    await settled();
    const store = new Store();
    const waiting = new Client();
    const bytes = randomBytes(3 * PART);
    const sending = begin(of, waiting, store);
    waiting.send(...pieces(bytes, 10 * KIB), null);
    await settled();
    expect(waiting.taken).toBeLessThanOrEqual(74 * KIB);
    expect(of.residentBytes).toBe(3 * PART);
    for (const holder of holders.slice(1)) holder.send(new Error('gone'));
    expect(await sending).toBe(3);
    expect(store.bytes.equals(bytes)).toBe(true);
  });

  it('completes all of many uploads that share the memory of one part', async () => {
    const of = memory(1);
    const uploads = Array.from({ length: 12 }, () => {
      const bytes = randomBytes(2 * PART + 99);
      const client = new Client();
      client.send(...pieces(bytes, 50 * KIB), null);
      const store = new Store();
      return { bytes, store, sent: begin(of, client, store) };
    });
    for (const { bytes, store, sent } of uploads) {
      expect(await sent).toBe(3);
      expect(store.bytes.equals(bytes)).toBe(true);
    }
  });

  it('holds no more for slow clients than they sent, so hundreds can send simultaneously', async () => {
    const of = new PartMemory(5 * 1024 * KIB, new MemoryBudget(80 * 1024 * KIB));
    const clients = Array.from({ length: 300 }, () => new Client());
    for (const client of clients) {
      void begin(of, client);
      client.send(randomBytes(80 * KIB), randomBytes(80 * KIB));
    }
    await settled();
    expect(clients.map(({ taken }) => taken)).toEqual(clients.map(() => 160 * KIB));
    expect(of.residentBytes).toBeLessThanOrEqual(80 * 1024 * KIB);
  });

  describe.each<[string, (client: Client, store: Store) => void]>([
    ['the client aborts while a part is being filled', (client) => { client.send(randomBytes(100 * KIB), new Error('gone')); }],
    ['the client aborts while parts are being sent', (client) => { client.send(randomBytes(2 * PART + 5), new Error('gone')); }],
    ['a part is refused', (client, store) => {
      store.gate = Promise.reject(new Error('refused'));
      store.gate.catch(() => undefined);
      client.send(randomBytes(2 * PART), randomBytes(10));
    }],
    ['the complete upload is refused', (client, store) => {
      store.gate = Promise.reject(new Error('refused'));
      store.gate.catch(() => undefined);
      client.send(randomBytes(100 * KIB), null);
    }],
  ])('when %s', (_, fail) => {
    it('releases the memory for the next upload', async () => {
      const of = memory(1);
      const client = new Client();
      const store = new Store();
      const failing = begin(of, client, store);
      fail(client, store);
      expect(await failing).toBeInstanceOf(Error);
      const next = new Client();
      const bytes = randomBytes(4 * PART);
      next.send(bytes, null);
      const taken = new Store();
      const sent = begin(of, next, taken);
      expect(await sent).toBe(4);
      expect(taken.bytes.equals(bytes)).toBe(true);
    });
  });

  it('returns unused memory to the system', async () => {
    const of = memory(4);
    const client = new Client();
    client.send(randomBytes(4 * PART), null);
    expect(await begin(of, client)).toBe(4);
    expect(of.residentBytes).toBeGreaterThan(0);
    vi.advanceTimersByTime(15_000);
    expect(of.residentBytes).toBe(0);
    expect(vi.getTimerCount()).toBe(0);
  });
});
