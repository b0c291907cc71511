import { configDefaults, defineConfig } from 'vitest/config';

/**
 * Vitest's configuration for the specs of one mutant, which run in the process of Vitest. Slow specs run only if they
 * are named. The mutated sources are run as they are, so nothing is built.
 */
export default defineConfig({
  test: {
    include: ['src/**/*.spec.ts', 'test/e2e/*.spec.ts'],
    exclude: [...configDefaults.exclude, ...(process.argv.some((argument) => argument.includes('.slow.')) ? [] : ['**/*.slow.spec.ts'])],
    environment: 'node',
    globalSetup: ['test/support/auth0-description.ts', 'test/support/temporary-directory.ts'],
    isolate: false,
    maxWorkers: 2,
    testTimeout: 60_000,
    hookTimeout: 60_000,
  },
});
