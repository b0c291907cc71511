import { defineConfig } from 'vitest/config';
import fast from './vitest.config.js';
import { RetriedTests } from './test/support/retries.js';

/** `npm run test:slow`: faults at every operation, storms, power cuts, and what only processes of their own show. */
export default defineConfig({
  test: {
    ...fast.test,
    include: ['src/**/*.slow.spec.ts', 'test/**/*.slow.spec.ts'],
    exclude: ['**/node_modules/**'],
    // Most of them wait for other processes.
    maxWorkers: 4,
    testTimeout: 180_000,
    hookTimeout: 180_000,
    reporters: ['default', new RetriedTests(), ['json', { outputFile: 'dist/slow-test-results.json' }]],
  },
});
