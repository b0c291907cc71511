/**
 * Works on some items at once and gives the results in the order of the items. Of the items no more are taken than are
 * worked on. What `work` rejects with, it throws when it is that result's turn.
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
    // It isn't awaited before its turn, and nobody else tells of it until then.
    result.catch(() => undefined);
    running.push(result);
  }
  for (const result of running) yield await result;
}
