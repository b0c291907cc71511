import assert from 'node:assert/strict';
import { setTimeout as delay } from 'node:timers/promises';
import { inspect, isDeepStrictEqual, types } from 'node:util';

/** Asserts that two values have the same contents. Ignores prototypes, and members that are undefined. */
export function assertEqual(actual: unknown, expected: unknown, message?: string): void {
  assert.deepStrictEqual(plain(actual), plain(expected), message);
}

/** Asserts that `actual` has all members of `expected`. `actual` may have more members, but not longer lists. */
export function assertMatches(actual: unknown, expected: unknown, message?: string): void {
  assertEqual(selected(actual, expected), expected, message);
}

export function assertLength(list: readonly unknown[], length: number, message = `The list has ${list.length} items, instead of ${length}.`): void {
  assert.equal(list.length, length, message);
}

export function assertContains(list: readonly unknown[], expected: unknown): void {
  const isThere = list.some((item) => isDeepStrictEqual(plain(item), plain(expected)));
  assert.ok(isThere, `Of ${list.length} items, none is ${inspect(expected)}.`);
}

export function assertInstance(error: unknown, type: abstract new (...parameters: never[]) => unknown): void {
  assert.ok(error instanceof type, `It must be a ${type.name}, but is ${inspect(error)}`);
}

/** @param what names the bytes in the error message. */
export function assertBytes(actual: Uint8Array | null | undefined, expected: Uint8Array, what: string): void {
  assert.ok(actual, `${what}: there are none, instead of ${expected.length}.`);
  assert.ok(Buffer.from(actual.buffer, actual.byteOffset, actual.length).equals(expected), `${what}: there are ${actual.length} other ones, instead of ${expected.length}.`);
}

/** Returns the error with which a call rejects. Fails if the call resolves. */
export async function rejectionOf(call: Promise<unknown>): Promise<unknown> {
  const outcome = await call.then(
    () => undefined,
    (error: unknown) => ({ error }),
  );
  assert.ok(outcome, 'The call resolved, but must reject.');
  return outcome.error;
}

/** Repeats a check until it passes. Rejects with the last error of the check after 20 seconds. */
export async function eventually(check: () => Promise<void>): Promise<void> {
  const end = performance.now() + 20_000;
  for (;;) {
    try {
      await check();
      return;
    } catch (error) {
      if (performance.now() > end) throw error;
      await delay(50);
    }
  }
}

type Members = Readonly<Record<string, unknown>>;

const isBytes = (value: unknown): value is Uint8Array => types.isUint8Array(value);

const isObject = (value: unknown): value is Members =>
  typeof value === 'object' && value !== null && !Array.isArray(value) && !isBytes(value) && !types.isDate(value) && !types.isNativeError(value);

/**
 * Copies a value with the prototypes of this module. Under some test runners, such as Jest, values have other
 * prototypes, and `deepStrictEqual` would report them as different.
 */
function plain(value: unknown): unknown {
  if (isBytes(value)) return Buffer.from(value);
  if (types.isDate(value)) return new Date(value);
  if (Array.isArray(value)) return Array.from(value, plain);
  if (!isObject(value)) return value;
  return Object.fromEntries(Object.entries(value).flatMap(([name, member]) => (member === undefined ? [] : [[name, plain(member)]])));
}

function selected(value: unknown, expected: unknown): unknown {
  if (Array.isArray(value) && Array.isArray(expected)) return Array.from(value, (item, index) => selected(item, expected[index]));
  if (!isObject(expected) || typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(expected).map(([name, member]) => [name, selected((value as Members)[name], member)]));
}
