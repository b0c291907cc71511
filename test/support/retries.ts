import type { Reporter, TestModule } from 'vitest/node';

/**
 * How often a failed test is repeated before it counts as failed: `TEST_RETRIES`, by default never. CI sets it, because
 * it shares its machine, and names what passed only when it was repeated.
 */
export const retry = Number(process.env.TEST_RETRIES ?? 0);

/** Names, at the end of a run, the tests that passed only when they were repeated, each with its first failure. */
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
