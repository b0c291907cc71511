import { AssertionError } from 'node:assert';
import { types } from 'node:util';
import type { TestRunner } from './test-runner.js';

/** A promise of a port, and advice for an adapter that breaks it. */
export interface PortPromise {
  /** The sentence that makes the promise in the port's comments, or a part of that sentence. */
  readonly sentence: string;
  readonly advice: string;
}

/** Defines a test of a promise. */
export type PromiseTest = (promise: PortPromise, title: string, test: () => void | Promise<void>) => void;

/**
 * Returns a function that defines the tests of a port's promises. A failure names the broken promise, with the advice.
 */
export const promisesOf =
  (port: string, { it }: Pick<TestRunner, 'it'>): PromiseTest =>
  (promise, title, test) => {
    it(title, async () => {
      try {
        await test();
      } catch (error) {
        throw explained(error, `${port} promises: "${promise.sentence}"\n${promise.advice}`);
      }
    });
  };

/**
 * Puts an explanation before the message of a failed assertion. Any other error becomes the cause of a new error, which
 * has the stack of that error.
 */
function explained(error: unknown, explanation: string): Error {
  if (error instanceof AssertionError) {
    const { message, stack = '' } = error;
    error.message = `${explanation}\n\n${message}`;
    error.stack = stack.replace(message, () => error.message);
    return error;
  }
  const failure = new Error(`${explanation}\n\n${String(error)}`, { cause: error });
  const [frames] = /(\n {4}at .*)+$/.exec(types.isNativeError(error) ? (error.stack ?? '') : '') ?? [];
  if (frames !== undefined) failure.stack = `${failure.name}: ${failure.message}${frames}`;
  return failure;
}
