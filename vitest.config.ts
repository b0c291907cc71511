import { configDefaults, defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['src/**/*.spec.ts', 'test/**/*.spec.ts'],
    exclude: [...configDefaults.exclude, 'test/integration/**', 'test/tenant/**'],
    environment: 'node',
    globalSetup: ['test/support/build.ts', 'test/support/auth0-description.ts', 'test/support/temporary-directory.ts'],
    isolate: false,
    maxWorkers: 2,
    testTimeout: 30_000,
    reporters: ['default', ['json', { outputFile: 'dist/test-results.json' }]],
  },
});
