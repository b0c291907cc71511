import { defineConfig } from 'vitest/config';

// A few tests of the suite store long files.
export default defineConfig({ test: { include: ['test/**/*.spec.ts'], testTimeout: 60_000 } });
