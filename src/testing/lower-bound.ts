/**
 * Returns the position of the first item for which `isBefore` is false, or else the length of the list. All items for
 * which `isBefore` is true must come first.
 */
export function lowerBound<Item>(items: readonly Item[], isBefore: (item: Item) => boolean): number {
  let [low, high] = [0, items.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (isBefore(items[middle] as Item)) low = middle + 1;
    else high = middle;
  }
  return low;
}
