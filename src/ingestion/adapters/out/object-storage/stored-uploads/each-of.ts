const AT_ONCE = 16;

/**
 * Runs an action for each item, at most 16 at once. If an action rejects, rejects with its error, but only when no
 * action is running any more.
 */
export async function eachOf<Item>(items: readonly Item[], action: (item: Item) => Promise<void>): Promise<void> {
  const rest = items.values();
  const workers = Array.from({ length: Math.min(AT_ONCE, items.length) }, async () => {
    for (const item of rest) await action(item);
  });
  const outcomes = await Promise.allSettled(workers);
  for (const outcome of outcomes) if (outcome.status === 'rejected') throw outcome.reason;
}
