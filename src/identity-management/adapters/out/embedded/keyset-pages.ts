import { setImmediate } from 'node:timers/promises';

export const PAGE_SIZE = 500;

/**
 * Pages of a table in the order of its `seq`, each read only when it is asked for, with a turn of the event loop
 * before it.
 *
 * @param read the rows behind `seq`, in order, `PAGE_SIZE` at most.
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
