import { AssertionError } from 'node:assert';
import { types } from 'node:util';
import type { TestRunner } from './test-runner.js';

/** A promise that the docstring of a port makes, and advice for the author of an adapter that breaks it. */
export interface PortPromise {
  /** A sentence of the port's docstring, or a part of such a sentence, word for word. */
  readonly sentence: string;
  readonly advice: string;
}

export type PromiseTest = (promise: PortPromise, title: string, test: () => void | Promise<void>) => void;

/**
 * Returns a function that defines tests of a port's promises. The error of a failing test quotes promise and advice.
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
