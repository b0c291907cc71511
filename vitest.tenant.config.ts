import { defineConfig } from 'vitest/config';
import { runCommand } from './src/commands/command.js';
import { loadAuth0CheckEnvironment } from './src/configuration/commands.js';

// What is missing is a line each, as with every command, and Vitest doesn't begin.
await runCommand(() => {
  loadAuth0CheckEnvironment();
  return Promise.resolve(0);
}, 2);
if (process.exitCode !== 0) process.exit();

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
