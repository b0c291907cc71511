import { defineConfig } from 'vitest/config';
import fast from './vitest.config.js';
import { RetriedTests } from './test/support/retries.js';

/** `npm test` without its build: test/integration/node-versions.spec.ts runs it with each version of Node. */
export default defineConfig({
  test: {
    ...fast.test,
    globalSetup: ['test/support/temporary-directory.ts'],
    reporters: ['default', new RetriedTests()],
  },
});
