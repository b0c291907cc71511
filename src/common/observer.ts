import { AsyncResource } from 'node:async_hooks';

/**
 * Makes a call at once, and observes it: measures it, or traces it. Resolves to the result of the call, and rejects with
 * its error.
 *
 * @param operation the name of the call, for example `create`.
 */
export type Observer = <Result>(operation: string, call: () => Promise<Result>) => Promise<Result>;

/** The names of the observed operations, by the names of the methods that carry them out. */
export type ObservedMethods<Target> = { readonly [Method in keyof Target]?: string };

/** From now on, an observer observes the calls of methods of this object, which return promises. */
export function observeMethods<Target extends object>(target: Target, observe: Observer, methods: ObservedMethods<Target>): void {
  replaceMethods<Promise<unknown>>(target, methods, (operation, call) => observe(operation, call));
}

/** Like `observeMethods`, for methods that return lists. A list is observed until its last entry was used. */
export function observeLists<Target extends object>(target: Target, observe: Observer, methods: ObservedMethods<Target>): void {
  replaceMethods<AsyncIterable<unknown>>(target, methods, (operation, call) => observeEntries(observe, operation, call()));
}

/** Passes the entries of a list on. An observer observes this as one call, which lasts until the last entry was used. */
export async function* observeEntries<Entry>(observe: Observer, operation: string, entries: AsyncIterable<Entry>): AsyncGenerator<Entry, void, undefined> {
  const iterator = entries[Symbol.asyncIterator]();
  let next = (): Promise<IteratorResult<Entry>> => iterator.next();
  let end = (): void => undefined;
  let fail = (_error: unknown): void => undefined;
  const observed = observe(operation, () => {
    // The list is read in the context of the call, to which the spans of its requests belong.
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
    // The caller gets the error of the list itself.
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
