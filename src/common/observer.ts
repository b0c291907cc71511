/**
 * Makes a call at once, and measures it. Resolves to the result of the call, and rejects with its error.
 *
 * @param operation the name of the call, for example `create`.
 */
export type Observer = <Result>(operation: string, call: () => Promise<Result>) => Promise<Result>;

/** Passes the entries of a list on. An observer observes this as one call, which lasts until the last entry was used. */
export async function* observeEntries<Entry>(observe: Observer, operation: string, entries: AsyncIterable<Entry>): AsyncGenerator<Entry, void, undefined> {
  const iterator = entries[Symbol.asyncIterator]();
  let end = (): void => undefined;
  let fail = (_error: unknown): void => undefined;
  const observed = observe(operation, () => new Promise<void>((resolve, reject) => { [end, fail] = [resolve, reject]; }));
  try {
    yield* { [Symbol.asyncIterator]: () => ({ next: () => iterator.next(), return: async () => (await iterator.return?.()) ?? { done: true, value: undefined } }) };
  } catch (error) {
    fail(error);
    throw error;
  } finally {
    end();
    // The caller gets the error of the list itself.
    await Promise.allSettled([observed]);
  }
}
