import { setImmediate } from 'node:timers/promises';

export const PAGE_SIZE = 500;

/**
 * Reads a table in pages, in the order of `seq`. Each page is read only on demand, after one turn of the event loop.
 *
 * @param read returns the rows after `seq`, in order, at most `PAGE_SIZE`.
 */
export async function* keysetPages<Row extends { readonly seq: number }>(
  read: (afterSeq: number) => readonly Row[],
): AsyncGenerator<readonly Row[], void, undefined> {
  for (let page: readonly Row[] | undefined; page === undefined || page.length === PAGE_SIZE; ) {
    await setImmediate();
    page = read(page?.at(-1)?.seq ?? 0);
    yield page;
  }
}
