import { defineConfig } from 'vitest/config';

/** `npm run auth0:check`: against a tenant of Auth0's that is for tests, whose plan may allow two calls a second. */
export default defineConfig({
  test: {
    include: ['test/tenant/**/*.spec.ts'],
    environment: 'node',
    globalSetup: ['test/tenant/report-file.ts'],
    testTimeout: 900_000,
    hookTimeout: 1_800_000,
    reporters: ['verbose'],
  },
});
