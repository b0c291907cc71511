/** Like `Promise.all`, but settles only after every promise has settled. */
export async function allDone<const T extends readonly unknown[]>(promises: T): Promise<{ -readonly [P in keyof T]: Awaited<T[P]> }> {
  await Promise.allSettled(promises);
  return Promise.all(promises);
}

/**
 * Runs an action for each item, at most `atOnce` at once. Each rejection lowers this number by one, so the other items
 * still get their turn unless `atOnce` actions reject. If any rejected, rejects in the end with one of the errors.
 */
export async function eachOf<Item>(items: readonly Item[], action: (item: Item) => Promise<void>, atOnce = 16): Promise<void> {
  const rest = items.values();
  const workers = Array.from({ length: Math.min(atOnce, items.length) }, async () => {
    for (const item of rest) await action(item);
  });
  await allDone(workers);
}
