import { createRequire } from 'node:module';

/**
 * The functions of a test runner that a contract suite calls. Those of Vitest, Jest and `node:test` have these types.
 */
export interface TestRunner {
  readonly describe: (name: string, define: () => void) => unknown;
  readonly it: (name: string, test: () => Promise<void>) => unknown;
  readonly beforeEach: (hook: () => Promise<void>) => unknown;
  readonly afterEach: (hook: () => Promise<void>) => unknown;
}

const FUNCTIONS = ['describe', 'it', 'beforeEach', 'afterEach'] as const satisfies readonly (keyof TestRunner)[];

/**
 * The global functions of a test runner if all four exist, as in Jest; otherwise Vitest's own.
 *
 * @throws TypeError when Vitest isn't running either, for example under `node:test`, whose functions aren't global.
 */
export function currentTestRunner(): TestRunner {
  const globals = globalThis as Partial<TestRunner>;
  if (FUNCTIONS.every((name) => typeof globals[name] === 'function')) return globals as TestRunner;
  // Vitest makes its functions global only if configured so. They aren't imported at the top of this file, because it
  // must load even if Vitest isn't installed.
  if ('__vitest_worker__' in globalThis) return vitest();
  throw new TypeError('No test runner found: pass { describe, it, beforeEach, afterEach } of yours as the last argument, for example those of node:test.');
}

function vitest(): TestRunner {
  const require = createRequire(createRequire(import.meta.url).resolve('vitest'));
  return require('@vitest/runner') as TestRunner;
}
