import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { beginCall, type CallKind } from './begin-call.js';

const times = (count: number, kind: CallKind): CallKind[] => Array.from({ length: count }, () => kind);

/** Requests calls of these kinds at once. Returns the first letters of the kinds in the order in which the calls began. */
async function begun(kinds: readonly CallKind[]): Promise<string> {
  let order = '';
  await Promise.all(kinds.map(async (kind) => {
    await beginCall(kind);
    order += kind.charAt(0);
  }));
  return order;
}

describe('beginCall', () => {
  beforeEach(() => {
    // The clock stands still, so that the length of an iteration doesn't decide.
    vi.spyOn(performance, 'now').mockReturnValue(0);
  });
  afterEach(async () => {
    vi.restoreAllMocks();
    // The iteration that began the last call ends in the next one.
    for (let iteration = 0; iteration < 2; iteration++) await new Promise(setImmediate);
  });

  it.each<[string, CallKind[], string]>([
    ['calls of one kind in their order', times(6, 'small'), 'ssssss'],
    ['a small call soon, although many reads wait', [...times(12, 'read'), 'small'], 'rsrrrrrrrrrrr'],
    ['a read soon, although many small calls wait', [...times(12, 'small'), 'read'], 'ssssrssssssss'],
    ['one read in each iteration while small calls wait', [...times(5, 'read'), ...times(6, 'small')], 'rsssrsssrrr'],
  ])('begins %s', async (_, kinds, expected) => {
    expect(await begun(kinds)).toBe(expected);
  });
});
