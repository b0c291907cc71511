import { createRequire } from 'node:module';

/** The functions of a test runner that a contract suite needs. Those of Vitest, Jest and `node:test` fit. */
export interface TestRunner {
  readonly describe: (name: string, define: () => void) => unknown;
  readonly it: (name: string, test: () => Promise<void>) => unknown;
  readonly beforeEach: (hook: () => Promise<void>) => unknown;
  readonly afterEach: (hook: () => Promise<void>) => unknown;
}

const FUNCTIONS = ['describe', 'it', 'beforeEach', 'afterEach'] as const satisfies readonly (keyof TestRunner)[];

/**
 * The functions of the test runner that runs this process: its global ones, or Vitest's own.
 *
 * @throws TypeError if there are neither.
 */
export function currentTestRunner(): TestRunner {
  const globals = globalThis as Partial<TestRunner>;
  if (FUNCTIONS.every((name) => typeof globals[name] === 'function')) return globals as TestRunner;
  // Vitest's functions are global only if its configuration says so. This module can't import them from `vitest`,
  // because it must load without Vitest too.
  if ('__vitest_worker__' in globalThis) return vitest();
  throw new TypeError('No test runner found: pass { describe, it, beforeEach, afterEach } of yours as the last argument, for example those of node:test.');
}

function vitest(): TestRunner {
  const require = createRequire(createRequire(import.meta.url).resolve('vitest'));
  return require('@vitest/runner') as TestRunner;
}
