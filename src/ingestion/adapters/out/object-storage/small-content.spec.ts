import { describe, expect, it } from 'vitest';
import { readSmallContent } from './small-content.js';

/** Chunks of the given lengths. `ended` says whether their iterator was closed or has ended. */
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

describe('the bytes of a file', () => {
  it.each([[[]], [[0]], [[1, 2]], [[65_536]], [[65_535, 1]], [Array.from({ length: 100 }, () => 655)]])('are read whole: %j', async (lengths) => {
    const { whole } = await readSmallContent(chunksOf(...lengths).bytes);
    expect(whole).toEqual(Buffer.alloc(lengths.reduce((sum, length) => sum + length, 0), 'x'));
  });

  it.each([[[65_537]], [[65_536, 1]], [[1, 65_536, 3]], [[1_000_000, 1_000_000]]])('are passed on as they arrive: %j', async (lengths) => {
    const content = await readSmallContent(chunksOf(...lengths).bytes);
    const passed: number[] = [];
    for await (const chunk of content.whole ? [] : content.bytes) passed.push(chunk.length);
    expect(passed).toEqual(lengths);
  });

  it('are no longer read when the reader stops', async () => {
    const { bytes, state } = chunksOf(65_537, 1, 1);
    const content = await readSmallContent(bytes);
    for await (const chunk of content.whole ? [] : content.bytes) {
      expect(chunk).toHaveLength(65_537);
      break;
    }
    expect(state.ended).toBe(true);
  });
});
