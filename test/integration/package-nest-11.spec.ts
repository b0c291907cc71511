import { cp } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, it } from 'vitest';
import { packageTests, run } from '../support/packed-package.js';

describe('the packed package in a new application on Nest 11, CommonJS', () => {
  const path = packageTests({
    example: 'nest-11',
    nest: '^11.0.1',
    lateRunner: 'vitest@^4.1.0',
    // The example itself is compiled with nodenext and nodenext.
    resolutions: [['nodenext', 'node16']],
    passed: /Tests: +48 passed, 48 total/,
  });
  // Copies the store's source file from the other example, as examples/README.md tells the reader to do.
  beforeAll(() => cp('examples/nest-12/src/folder-storage.ts', join(path(), 'src/folder-storage.ts')));

  it("runs the example's tests of the whole application", async () => {
    await run(path(), 'npm', 'run', 'test:e2e');
  }, 300_000);
});
