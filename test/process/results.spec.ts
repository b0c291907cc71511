import { writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { expect, it } from 'vitest';
import { Workspace } from '../support/process.js';

const passed = { ancestorTitles: ['one'], title: 'passes', status: 'passed' };
const skipped = (suite: string, title: string) => ({ ancestorTitles: [suite, 'inner'], title, status: 'skipped' });
const report = (numPassedTests: number, numFailedTests: number, name: string, assertionResults: unknown[]) =>
  JSON.stringify({ numPassedTests, numFailedTests, testResults: [{ name: resolve(name), assertionResults }] });

it('the last step of CI sums all results, and names the suites with skipped tests', async () => {
  const workspace = await Workspace.create();
  try {
    const [fast, integration] = [join(workspace.directory, 'fast.json'), join(workspace.directory, 'integration.json')];
    await writeFile(fast, report(20, 0, 'test/fast.spec.ts', [passed]));
    await writeFile(integration, report(3, 1, 'test/real.spec.ts', [passed, skipped('a', 'x'), skipped('a', 'y'), skipped('b', 'x'), { ...passed, ancestorTitles: [], title: 'alone', status: 'skipped' }]));
    const program = workspace.run(process.execPath, ['test/results.mjs', fast, integration], {}, resolve('.'));
    expect(await program.exited).toEqual({ code: 0, signal: null });
    expect(program.lines).toEqual(['Skipped: test/real.spec.ts > a (2)', 'Skipped: test/real.spec.ts > b (1)', 'Skipped: test/real.spec.ts > alone (1)', '23 passed, 1 failed, 4 skipped']);
  } finally {
    await workspace.dispose();
  }
});
