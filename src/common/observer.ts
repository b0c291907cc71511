import { AsyncResource } from 'node:async_hooks';

/**
 * Makes a call at once and observes it, for example measures or traces it. Settles as the call does.
 *
 * @param operation the name of the call, for example `create`.
 */
export type Observer = <Result>(operation: string, call: () => Promise<Result>) => Promise<Result>;

/** The names of the observed operations, by the names of the methods that carry them out. */
export type ObservedMethods<Target> = { readonly [Method in keyof Target]?: string };

/** Makes an observer observe all further calls of the given methods of an object. They must return promises. */
export function observeMethods<Target extends object>(target: Target, observe: Observer, methods: ObservedMethods<Target>): void {
  replaceMethods<Promise<unknown>>(target, methods, (operation, call) => observe(operation, call));
}

/**
 * Like `observeMethods`, for methods that return lists. A call lasts until the caller has used the last entry or stops
 * reading.
 */
export function observeLists<Target extends object>(target: Target, observe: Observer, methods: ObservedMethods<Target>): void {
  replaceMethods<AsyncIterable<unknown>>(target, methods, (operation, call) => observeEntries(observe, operation, call()));
}

/**
 * Yields the entries of a list. The observer sees one call, which lasts until the caller has used the last entry or
 * stops reading, and fails if the list does.
 */
export async function* observeEntries<Entry>(observe: Observer, operation: string, entries: AsyncIterable<Entry>): AsyncGenerator<Entry, void, undefined> {
  const iterator = entries[Symbol.asyncIterator]();
  let next = (): Promise<IteratorResult<Entry>> => iterator.next();
  let end = (): void => undefined;
  let fail = (_error: unknown): void => undefined;
  const observed = observe(operation, () => {
    // `next` runs in the context of the observed call, so that the spans of the list's requests belong to that call.
    next = AsyncResource.bind(next);
    return new Promise<void>((resolve, reject) => { [end, fail] = [resolve, reject]; });
  });
  try {
    yield* { [Symbol.asyncIterator]: () => ({ next, return: async () => (await iterator.return?.()) ?? { done: true, value: undefined } }) };
  } catch (error) {
    fail(error);
    throw error;
  } finally {
    end();
    // If the list fails, `observed` rejects with its error, which the caller already gets.
    await Promise.allSettled([observed]);
  }
}

function replaceMethods<Result>(target: object, methods: object, replace: (operation: string, call: () => Result) => Result): void {
  for (const [method, operation] of Object.entries(methods) as [string, string][]) {
    const original = Reflect.get(target, method) as (...parameters: unknown[]) => Result;
    const value = (...parameters: unknown[]): Result => replace(operation, () => original.apply(target, parameters));
    Object.defineProperty(target, method, { value, configurable: true });
  }
}
