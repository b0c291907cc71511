import { randomBytes } from 'node:crypto';
import { setImmediate } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { MemoryBudget } from '../../../../common/memory-budget.js';
import { PartMemory } from './part-memory.js';
import { type PartTarget, sendParts } from './parts.js';

const KIB = 1024;
/** Longer than what an upload holds before it asks for memory. */
const PART = 256 * KIB;

/** Takes what comes. */
class Store implements PartTarget {
  readonly parts: Buffer[] = [];
  whole: Buffer | undefined;
  /** Awaited by each sending. */
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

/** A client that sends when it is told to, and counts what was taken. */
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
  for (let turn = 0; turn < 50; turn++) await setImmediate();
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

  it.each([0, 1, 64 * KIB, 64 * KIB + 1, PART - 1, PART, PART + 1, 2 * PART, 3 * PART + 7])('sends %i bytes as they are', async (size) => {
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

  it('sends bytes whole that came one by one, beside clients that use up the memory', async () => {
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

  it('reads no more from a client while there is no memory for it, and goes on when there is', async () => {
    const of = memory(2);
    const holders = [new Client(), new Client()];
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
    expect(of.residentBytes).toBe(2 * PART);
    holders[0]?.send(new Error('gone'));
    expect(await sending).toBe(3);
    expect(store.bytes.equals(bytes)).toBe(true);
  });

  it('comes to the end with all of many that share the memory of one part', async () => {
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

  it('serves by turns who has sent a part, who waits longest and who waits least', async () => {
    const of = memory(1);
    const order: string[] = [];
    const hold = (name: string, isProven = false) =>
      of.acquire(isProven, () => undefined).then((part) => {
        order.push(name);
        return part;
      });
    const first = await hold('first');
    const names = ['oldest', 'older', 'newer', 'newest'];
    const waiting = [...names.map((name) => hold(name)), ...['proven', 'proven too'].map((name) => hold(name, true))];
    first.release();
    // Each gives it to the next.
    await Promise.all(waiting.map(async (granted) => { (await granted).release(); }));
    expect(order).toEqual(['first', 'oldest', 'newest', 'proven', 'older', 'newer', 'proven too']);
  });

  describe.each<[string, (client: Client, store: Store, waitBeside: () => void) => Promise<void> | void]>([
    ['the client breaks off while a part is filled', (client) => { client.send(randomBytes(100 * KIB), new Error('gone')); }],
    ['the client breaks off while parts are being sent', (client) => { client.send(randomBytes(2 * PART + 5), new Error('gone')); }],
    ['a part is refused', (client, store) => {
      store.gate = Promise.reject(new Error('refused'));
      store.gate.catch(() => undefined);
      client.send(randomBytes(2 * PART), randomBytes(10));
    }],
    ['the whole is refused', (client, store) => {
      store.gate = Promise.reject(new Error('refused'));
      store.gate.catch(() => undefined);
      client.send(randomBytes(100 * KIB), null);
    }],
    ['the client is silent while others wait', async (client, _, waitBeside) => {
      client.send(randomBytes(100 * KIB));
      await settled();
      waitBeside();
      await settled();
      vi.advanceTimersByTime(10_000);
    }],
    ['the client is silent', async (client) => {
      client.send(randomBytes(100 * KIB));
      await settled();
      vi.advanceTimersByTime(10 * 60_000);
    }],
  ])('when %s', (_, fail) => {
    it('gives back the memory, and the next one goes on', async () => {
      const of = memory(2);
      const client = new Client();
      const store = new Store();
      const failing = begin(of, client, store);
      const waitBeside = () => {
        for (let index = 0; index < 2; index++) {
          const other = new Client();
          other.send(randomBytes(100 * KIB));
          void begin(of, other);
        }
      };
      await fail(client, store, waitBeside);
      expect(await failing).toBeInstanceOf(Error);
      // The others are silent too.
      const next = new Client();
      const bytes = randomBytes(4 * PART);
      next.send(bytes, null);
      const taken = new Store();
      const sent = begin(of, next, taken);
      for (let second = 0; second < 10; second++) {
        await settled();
        vi.advanceTimersByTime(1_000);
      }
      expect(await sent).toBe(4);
      expect(taken.bytes.equals(bytes)).toBe(true);
    });
  });

  it.each([
    ['sends nothing', 0],
    ['sends a byte now and then', 1],
  ])('refuses a client that %s while others wait, and nobody else', async (_, perSecond) => {
    const of = memory(1);
    const holder = new Client();
    const holding = begin(of, holder);
    holder.send(randomBytes(100 * KIB));
    await settled();
    const honest = new Client();
    const bytes = randomBytes(3 * PART);
    const store = new Store();
    const sending = begin(of, honest, store);
    honest.send(...pieces(bytes, 20 * KIB), null);
    for (let second = 0; second < 10; second++) {
      holder.send(randomBytes(perSecond));
      vi.advanceTimersByTime(1_000);
      await settled();
    }
    expect(await holding).toMatchObject({ kind: 'request-timeout' });
    expect(await sending).toBe(3);
    expect(store.bytes.equals(bytes)).toBe(true);
  });

  it('lets a slow client go on for as long as nobody waits, and also then when it keeps up', async () => {
    const of = memory(1);
    const slow = new Client();
    const store = new Store();
    const sending = begin(of, slow, store);
    const sent: Buffer[] = [];
    const go = async (seconds: number, perSecond: number) => {
      for (let second = 0; second < seconds; second++) {
        const piece = randomBytes(perSecond);
        sent.push(piece);
        slow.send(piece);
        await settled();
        vi.advanceTimersByTime(1_000);
      }
    };
    await go(1, 70 * KIB);
    await go(120, 1_100);
    const waiting = new Client();
    const other = begin(of, waiting);
    waiting.send(randomBytes(100 * KIB), null);
    await settled();
    await go(1, 20 * KIB);
    await go(9, 20 * KIB);
    slow.send(null);
    expect(await sending).toBeTypeOf('number');
    expect(store.bytes.equals(Buffer.concat(sent))).toBe(true);
    expect(await other).toBe(0);
  });

  it('gives memory back to the system when nobody uses it', async () => {
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
