/**
 * The position of the first item for which `isBefore` is false, in a list in which it is true for all items up to some
 * position. The length of the list if it is true for all.
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
