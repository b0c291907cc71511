/**
 * Works on up to `atOnce` items at the same time, and yields the results in the order of the items. If `work` rejects
 * for an item, throws the error in place of its result.
 */
export async function* concurrently<Item, Result>(
  items: AsyncIterable<Item>,
  atOnce: number,
  work: (item: Item) => Promise<Result>,
): AsyncGenerator<Result> {
  const running: Promise<Result>[] = [];
  for await (const item of items) {
    if (running.length === atOnce) yield (await running.shift()) as Result;
    const result = work(item);
    // If the result rejects before its turn comes, this handler keeps the rejection from counting as unhandled.
    result.catch(() => undefined);
    running.push(result);
  }
  for (const result of running) yield await result;
}
