import type { TestRunner } from '../../src/testing/contracts.js';

type Step = () => Promise<void>;

/** A test runner that only collects the tests of a contract suite. `failures` runs them. */
export class CollectingRunner implements TestRunner {
  readonly tests: { readonly title: string; readonly run: Step }[] = [];
  private readonly hooks: { name: string; before: Step[]; after: Step[] }[] = [];

  readonly describe = (name: string, define: () => void): void => {
    this.hooks.push({ name, before: [], after: [] });
    define();
    this.hooks.pop();
  };

  readonly it = (title: string, test: Step): void => {
    const hooks = [...this.hooks];
    const run = async (): Promise<void> => {
      for (const { before } of hooks) for (const step of before) await step();
      try {
        await test();
      } finally {
        for (const { after } of hooks.toReversed()) for (const step of after) await step();
      }
    };
    this.tests.push({ title: [...hooks.slice(1).map(({ name }) => name), title].join(' > '), run });
  };

  readonly beforeEach = (step: Step): void => {
    this.hooks.at(-1)?.before.push(step);
  };

  readonly afterEach = (step: Step): void => {
    this.hooks.at(-1)?.after.push(step);
  };

  /**
   * Runs the collected tests whose titles match (default: all). Resolves to the error message of each test that fails,
   * by title.
   */
  async failures(titles = /^/): Promise<Map<string, string>> {
    const failures = new Map<string, string>();
    for (const { title, run } of this.tests.filter((test) => titles.test(test.title))) await run().catch((error: unknown) => failures.set(title, (error as Error).message));
    return failures;
  }
}
