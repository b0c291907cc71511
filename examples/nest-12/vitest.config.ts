import { defineConfig } from 'vitest/config';

// The time limit is long, because a few tests of the suite store long files.
export default defineConfig({ test: { include: ['test/**/*.spec.ts'], testTimeout: 60_000 } });
