import { readFileSync } from 'node:fs';
import { configDefaults, defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';
import type { Plan } from './plan.js';

const { specs } = JSON.parse(readFileSync(process.env.MUTATION_PLAN ?? '', 'utf8')) as Plan;

class AsPlanned extends BaseSequencer {
  override sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification) => specs.findIndex((spec) => moduleId.endsWith(`/${spec}`));
    return Promise.resolve(files.sort((one, other) => rank(one) - rank(other)));
  }
}

/** Runs the specs of a plan. They import the mutated TypeScript sources, so nothing is built. */
export default defineConfig({
  test: {
    include: [...specs],
    exclude: configDefaults.exclude,
    environment: 'node',
    globalSetup: ['test/support/auth0-description.ts', 'test/support/temporary-directory.ts'],
    runner: 'test/mutation/runner.ts',
    sequence: { sequencer: AsPlanned },
    isolate: false,
    // In the copy of the repository, because `node_modules` is shared.
    experimental: { fsModuleCache: true, fsModuleCachePath: '.module-cache' },
    maxWorkers: 1,
    testTimeout: 60_000,
    hookTimeout: 60_000,
  },
});
