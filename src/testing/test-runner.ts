import { createRequire } from 'node:module';

/** The functions of a test runner that a contract suite needs. Vitest, Jest and `node:test` have them. */
export interface TestRunner {
  readonly describe: (name: string, define: () => void) => unknown;
  readonly it: (name: string, test: () => Promise<void>) => unknown;
  readonly beforeEach: (hook: () => Promise<void>) => unknown;
  readonly afterEach: (hook: () => Promise<void>) => unknown;
}

const FUNCTIONS = ['describe', 'it', 'beforeEach', 'afterEach'] as const satisfies readonly (keyof TestRunner)[];

/**
 * The test runner that runs this process: its global functions, or Vitest's own.
 *
 * @throws TypeError if there is none.
 */
export function currentTestRunner(): TestRunner {
  const globals = globalThis as Partial<TestRunner>;
  if (FUNCTIONS.every((name) => typeof globals[name] === 'function')) return globals as TestRunner;
  // Vitest has no global functions unless its configuration says so. This module can't import them from Vitest, because
  // it must load without Vitest too.
  if ('__vitest_worker__' in globalThis) return vitest();
  throw new TypeError('No test runner found: pass { describe, it, beforeEach, afterEach } of yours as the last argument, for example those of node:test.');
}

function vitest(): TestRunner {
  const require = createRequire(createRequire(import.meta.url).resolve('vitest'));
  return require('@vitest/runner') as TestRunner;
}
