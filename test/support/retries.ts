import type { Reporter, TestModule } from 'vitest/node';

/**
 * How often a failed test is repeated before it counts as failed: the variable `TEST_RETRIES`, by default 0. CI sets
 * it, because CI's machine has other work to do at the same time. CI names the tests that passed only when they were
 * repeated.
 */
export const retry = Number(process.env.TEST_RETRIES ?? 0);

/**
 * The options of a test that isn't repeated after it has found a loss: that it loses nothing when it is repeated proves
 * nothing.
 */
export const retryUnless = (hasLost: () => boolean) => ({ retry: { count: retry, condition: () => !hasLost() } });

/** At the end of a test run, prints the tests that passed only when they were repeated, each with its failures. */
export class RetriedTests implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    for (const module of modules) {
      for (const test of module.children.allTests('passed')) {
        if (!test.diagnostic()?.flaky) continue;
        process.stdout.write(`Passed only when repeated: ${module.relativeModuleId} > ${test.fullName}\n`);
        for (const { stack, message } of test.result().errors ?? []) process.stdout.write(`${stack ?? message}\n`);
      }
    }
  }
}
