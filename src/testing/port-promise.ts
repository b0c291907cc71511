import { AssertionError } from 'node:assert';
import type { TestRunner } from './test-runner.js';

/** A promise of a port, and what to do if an adapter breaks it. */
export interface PortPromise {
  /** A sentence, or a part of one, of the port's comments. */
  readonly sentence: string;
  readonly advice: string;
}

/** Defines a test of a promise. */
export type PromiseTest = (promise: PortPromise, title: string, test: () => void | Promise<void>) => void;

/** Tests the promises of a port. A failure says which promise is broken, and what to do. */
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

/** Puts an explanation before the message of a failed assertion. Any other error becomes the cause of a new one. */
function explained(error: unknown, explanation: string): Error {
  if (!(error instanceof AssertionError)) return new Error(`${explanation}\n\n${String(error)}`, { cause: error });
  const { message, stack = '' } = error;
  error.message = `${explanation}\n\n${message}`;
  error.stack = stack.replace(message, () => error.message);
  return error;
}
