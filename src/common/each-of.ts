/** Like `Promise.all`, but settles only after every promise has settled. */
export async function allDone<const T extends readonly unknown[]>(promises: T): Promise<{ -readonly [P in keyof T]: Awaited<T[P]> }> {
  await Promise.allSettled(promises);
  return Promise.all(promises);
}

/**
 * Runs an action for each item, at most `atOnce` at once. If an action rejects, rejects with its error, but only when
 * no action is running any more. Some items may then have been left out.
 */
export async function eachOf<Item>(items: readonly Item[], action: (item: Item) => Promise<void>, atOnce = 16): Promise<void> {
  const rest = items.values();
  const workers = Array.from({ length: Math.min(atOnce, items.length) }, async () => {
    for (const item of rest) await action(item);
  });
  await allDone(workers);
}
