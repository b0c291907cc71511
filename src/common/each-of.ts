/**
 * Like `Promise.all`, but settles only after every promise has settled. If several have rejected, rejects with the
 * error of the first of them in the list.
 */
export async function allDone<const T extends readonly unknown[]>(promises: T): Promise<{ -readonly [P in keyof T]: Awaited<T[P]> }> {
  await Promise.allSettled(promises);
  return Promise.all(promises);
}

/**
 * Runs an action for each item, at most `atOnce` (default: 16) at once. Each action that rejects lowers this number by
 * one. So the other items still get their turn, unless `atOnce` actions reject. In the end, rejects with the error of
 * one of the actions that rejected.
 */
export async function eachOf<Item>(items: readonly Item[], action: (item: Item) => Promise<void>, atOnce = 16): Promise<void> {
  const rest = items.values();
  const workers = Array.from({ length: Math.min(atOnce, items.length) }, async () => {
    for (const item of rest) await action(item);
  });
  await allDone(workers);
}
