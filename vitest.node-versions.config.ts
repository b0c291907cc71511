import { defineConfig } from 'vitest/config';
import fast from './vitest.config.js';

/** What test/integration/node-versions.spec.ts runs with each version of Node: what depends on Node most, on the latest build. */
export default defineConfig({
  test: {
    ...fast.test,
    include: [
      'src/http/**/*.spec.ts',
      'src/ingestion/adapters/out/local-disk/local-disk.file-storage.adapter.spec.ts',
      'src/identity-management/adapters/out/embedded/*.spec.ts',
      'test/e2e/{client,http-edge,identity-management,ingestion,stored-uploads,upload-integrity}.e2e.spec.ts',
      'test/process/{commands,ready-line,token}.spec.ts',
    ],
    globalSetup: ['test/support/temporary-directory.ts'],
    maxWorkers: 2,
    reporters: ['default'],
  },
});
