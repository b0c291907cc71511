/**
 * Like `Promise.all`, but settles only after every promise has settled. If several have rejected, rejects with the
 * error of the first of them in the list.
 */
export async function allDone<const T extends readonly unknown[]>(promises: T): Promise<{ -readonly [P in keyof T]: Awaited<T[P]> }> {
  await Promise.allSettled(promises);
  return Promise.all(promises);
}

/**
 * Runs an action for each item, at most `atOnce` at once. If an action rejects, rejects too, but only when no action is
 * running any more, and with only one error if several have rejected. Some items may then have been left out.
 */
export async function eachOf<Item>(items: readonly Item[], action: (item: Item) => Promise<void>, atOnce = 16): Promise<void> {
  const rest = items.values();
  const workers = Array.from({ length: Math.min(atOnce, items.length) }, async () => {
    for (const item of rest) await action(item);
  });
  await allDone(workers);
}
