/**
 * Reads all items of an offset-based list, each once, while others add and delete items.
 *
 * Each page begins with the last item that was read. If the page's first item has been seen before, no unseen item has
 * moved up past the reader. Otherwise the reader goes back one page. Keeps the ids of all items and one page in memory.
 *
 * @param read returns `count` items of the list from the position `first` on, in a stable order; fewer at the end of
 * the list.
 */
export async function* offsetPages<Item>(
  pageSize: number,
  read: (first: number, count: number) => Promise<readonly Item[]>,
  idOf: (item: Item) => string,
): AsyncGenerator<readonly Item[], void, undefined> {
  const seen = new Set<string>();
  for (let first = 0, isLast = false; !isLast; ) {
    const items = await read(first, pageSize);
    const [overlap] = items;
    if (first > 0 && (overlap === undefined || !seen.has(idOf(overlap)))) {
      first = Math.max(0, first - pageSize + 1);
      continue;
    }
    isLast = items.length < pageSize;
    first += items.length - 1;
    const fresh = items.filter((item) => !seen.has(idOf(item)));
    for (const item of fresh) seen.add(idOf(item));
    yield fresh;
  }
}
