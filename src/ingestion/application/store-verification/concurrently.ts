/**
 * Works on up to `atOnce` items at once and yields the results in the order of the items. Takes at most one item from
 * `items` before there is room to work on that item. If `work` rejects, the error is thrown when that result is due.
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
    // The result is awaited only when it is due. Without this handler, an earlier rejection would count as unhandled.
    result.catch(() => undefined);
    running.push(result);
  }
  for (const result of running) yield await result;
}
