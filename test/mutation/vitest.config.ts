import { configDefaults, defineConfig } from 'vitest/config';

const named = (part: string): string[] => process.argv.filter((argument) => argument.includes(part));

/**
 * Slow specs, and those against a real server, run only if they are named on the command line. The specs import the
 * mutated TypeScript sources, so nothing is built.
 */
export default defineConfig({
  test: {
    include: ['src/**/*.spec.ts', 'test/e2e/*.spec.ts', ...named('test/integration/')],
    exclude: [...configDefaults.exclude, ...(named('.slow.').length > 0 ? [] : ['**/*.slow.spec.ts'])],
    environment: 'node',
    env: { TEST_CASES: 'all' },
    globalSetup: ['test/support/auth0-description.ts', 'test/support/temporary-directory.ts'],
    isolate: false,
    maxWorkers: 1,
    testTimeout: 60_000,
    hookTimeout: 60_000,
  },
});
