import { configDefaults, defineConfig } from 'vitest/config';

/**
 * Vitest's configuration for running specs on a mutant. Slow specs run only if they are named on the command line. The
 * specs import the mutated TypeScript sources, so nothing is built.
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
