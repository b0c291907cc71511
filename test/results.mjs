// Sums the results of test runs, whose JSON reports are the arguments, and names the suites with skipped tests.
// `.ci/run` ends with it.
import { readFileSync } from 'node:fs';
import { relative } from 'node:path';

const runs = process.argv.slice(2).map((file) => JSON.parse(readFileSync(file, 'utf8')));
const sum = (member) => runs.reduce((total, run) => total + run[member], 0);

/** The number of skipped tests per suite. A test outside of suites counts as a suite. */
const suites = new Map();
for (const { name: file, assertionResults } of runs.flatMap(({ testResults }) => testResults)) {
  for (const { ancestorTitles, title, status } of assertionResults) {
    if (status === 'passed' || status === 'failed') continue;
    const suite = `${relative('.', file)} > ${ancestorTitles[0] ?? title}`;
    suites.set(suite, (suites.get(suite) ?? 0) + 1);
  }
}
const skipped = [...suites.values()].reduce((total, count) => total + count, 0);
for (const [suite, count] of suites) console.log(`Skipped: ${suite} (${count})`);
console.log(`${sum('numPassedTests')} passed, ${sum('numFailedTests')} failed, ${skipped} skipped`);
