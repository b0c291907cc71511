import { defineConfig } from 'vitest/config';

/** `npm run test:browser`: Swagger UI in Chromium. */
export default defineConfig({
  test: {
    include: ['test/browser/**/*.spec.mjs'],
    environment: 'node',
    testTimeout: 120_000,
    hookTimeout: 120_000,
  },
});
