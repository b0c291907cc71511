import { describe, expect, it } from 'vitest';
import { behindHead, readHead } from './stream-head.js';

const MOST = 65_536;

/** Chunks of the given lengths. `state.ended` says whether their iterator was closed or has ended. */
function chunksOf(...lengths: number[]) {
  const state = { ended: false };
  async function* bytes() {
    try {
      for (const length of lengths) yield await Promise.resolve(Buffer.alloc(length, 'x'));
    } finally {
      state.ended = true;
    }
  }
  return { bytes: bytes(), state };
}

describe('the bytes of a stream', () => {
  it.each([[[]], [[0]], [[1, 2]], [[65_536]], [[65_535, 1]], [Array.from({ length: 100 }, () => 655)]])('are read whole: %j', async (lengths) => {
    const { chunks, rest } = await readHead(chunksOf(...lengths).bytes, MOST);
    expect(rest).toBeUndefined();
    expect(Buffer.concat(chunks)).toEqual(Buffer.alloc(lengths.reduce((sum, length) => sum + length, 0), 'x'));
  });

  it.each([[[65_537]], [[65_536, 1]], [[1, 65_536, 3]], [[1_000_000, 1_000_000]]])('are passed on as they arrive: %j', async (lengths) => {
    const head = await readHead(chunksOf(...lengths).bytes, MOST);
    expect(head.rest).toBeDefined();
    const passed: number[] = [];
    for await (const chunk of behindHead(head)) passed.push(chunk.length);
    expect(passed).toEqual(lengths);
  });

  it.each([
    ['in the head', 1],
    ['behind the head', 3],
  ])('are no longer read when the reader stops %s', async (_, count) => {
    const { bytes, state } = chunksOf(60_000, 60_000, 1, 1);
    let passed = 0;
    for await (const chunk of behindHead(await readHead(bytes, MOST))) {
      expect(chunk.length).toBeGreaterThan(0);
      if (++passed === count) break;
    }
    expect(state.ended).toBe(true);
  });

  it('are not held after they were passed on', async () => {
    const head = await readHead(chunksOf(60_000, 60_000, 1).bytes, MOST);
    const held: number[] = [];
    for await (const chunk of behindHead(head)) held.push(head.chunks.length + Number(head.chunks.includes(chunk)));
    expect(held).toEqual([1, 0, 0]);
  });
});
