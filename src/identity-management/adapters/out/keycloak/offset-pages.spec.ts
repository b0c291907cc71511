import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { offsetPages } from './offset-pages.js';

interface Item {
  readonly id: string;
}

const idOf = ({ id }: Item): string => id;

async function allOf(pages: AsyncIterable<readonly Item[]>): Promise<string[]> {
  const ids: string[] = [];
  for await (const page of pages) ids.push(...page.map(({ id }) => id));
  return ids;
}

/**
 * How the list changes before a read: the positions of the items to remove (`out`), and the items to insert (`into`).
 */
const change = fc.record({ out: fc.array(fc.nat(), { maxLength: 4 }), into: fc.array(fc.integer({ min: 0, max: 999 }), { maxLength: 4 }) });

describe('a list that is read by offset', () => {
  it('contains each item that stays once, and none twice, whatever is inserted and removed', async () => {
    const start = fc.uniqueArray(fc.integer({ min: 0, max: 999 }), { minLength: 1, maxLength: 40 });
    await fc.assert(
      fc.asyncProperty(start, fc.array(change, { maxLength: 20 }), fc.integer({ min: 2, max: 9 }), async (numbers, changes, pageSize) => {
        let items = numbers;
        const coming = [...changes];
        const left = new Set<number>();
        const listed = await allOf(
          offsetPages(pageSize, (first, count) => {
            const { out = [], into = [] } = coming.shift() ?? {};
            const leaving = new Set(out.map((place) => items[place % items.length]));
            for (const item of leaving) if (item !== undefined) left.add(item);
            // A removed item never returns, because ids are not reused.
            items = [...new Set([...items.filter((item) => !leaving.has(item)), ...into.filter((item) => !left.has(item))])].sort((a, b) => a - b);
            return Promise.resolve(items.slice(first, first + count).map((item) => ({ id: String(item) })));
          }, idOf),
        );
        expect(new Set(listed).size).toBe(listed.length);
        expect(listed).toEqual(expect.arrayContaining(numbers.filter((item) => !left.has(item)).map(String)));
      }),
    );
  });

  it.each([
    [0, 3, [[0, 3]]],
    [2, 3, [[0, 3]]],
    [3, 3, [[0, 3], [2, 3]]],
    [6, 3, [[0, 3], [2, 3], [4, 3]]],
  ])('of %i items is read in pages of %i, each starting at the last item of the previous one', async (length, pageSize, expected) => {
    const items = Array.from({ length }, (_, index) => ({ id: String(index) }));
    const reads: number[][] = [];
    const read = (first: number, count: number) => {
      reads.push([first, count]);
      return Promise.resolve(items.slice(first, first + count));
    };
    expect(await allOf(offsetPages(pageSize, read, idOf))).toEqual(items.map(({ id }) => id));
    expect(reads).toEqual(expected);
  });
});
