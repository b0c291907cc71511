/**
 * Reads all items of a list in pages by offset, each item once, while others add and delete items. Each page begins at
 * the last item that was read. If another item is there, deletions may have moved unread ones up, and the reader goes
 * back by almost a page. Keeps the ids of all items in memory.
 *
 * @param pageSize at least 2, because each page after the first repeats one item.
 * @param read returns items in a stable order; fewer than `count` only at the end of the list.
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
