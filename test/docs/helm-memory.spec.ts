import { readFile } from 'node:fs/promises';
import { beforeAll, describe, expect, it } from 'vitest';
import { CHART } from '../support/helm-chart.js';
import { parseYaml } from '../support/yaml.js';

interface Values {
  readonly resources: { readonly requests: { readonly memory: string }; readonly limits: { readonly memory: string } };
}

/** The number in a quantity such as `256Mi`. */
const mebibytesOf = (quantity: string) => Number(/^(\d+)Mi$/.exec(quantity)?.[1]);

const pageOf = (name: string) => readFile(`docs/${name}.md`, 'utf8');

describe("the memory of a pod in the Helm chart's README", () => {
  let table: string;
  let parts: [mebibytes: number, use: string][];
  let resources: Values['resources'];
  beforeAll(async () => {
    [, table = ''] = (await readFile(`${CHART}/README.md`, 'utf8')).split('\n## Memory\n');
    parts = [...table.matchAll(/^\| (\d+) \| (.*?) \|/gm)].map(([, mebibytes, use = '']) => [Number(mebibytes), use]);
    ({ resources } = parseYaml(await readFile(`${CHART}/values.yaml`, 'utf8')) as Values);
  });

  const sumOf = (added: typeof parts) => added.reduce((total, [part]) => total + part, 0);

  it('is added up, and a pod may use as much', () => {
    expect(table).toContain(`\nTogether these are ${sumOf(parts)} MiB, so the limit is ${mebibytesOf(resources.limits.memory)}.`);
    expect(mebibytesOf(resources.limits.memory)).toBeGreaterThanOrEqual(sumOf(parts));
    const requested = parts.filter(([, use]) => ['a process after its start', 'request bodies', 'answers with a long `additional_data`'].includes(use));
    expect(requested).toHaveLength(3);
    expect(mebibytesOf(resources.requests.memory)).toBeGreaterThanOrEqual(sumOf(requested));
    expect(table).toContain(` The request of ${mebibytesOf(resources.requests.memory)} MiB is for the process, request bodies, and answers with a long \`additional_data\`.`);
  });

  it('has the figures of the pages', async () => {
    const [, started = '', onNode24 = ''] = /(\d+) MiB after a start.*?, on Node 24 some (\d+) MiB more/.exec(await pageOf('performance')) ?? [];
    const [, besideReaders = ''] = /^\| memory at its peak beside the readers.*? \| (\d+) MiB,/m.exec(await pageOf('managing-uploads')) ?? [];
    const atStart = Number(started) + Number(onNode24);
    expect([parts[0]?.[0], parts.at(-1)?.[0]]).toEqual([atStart, Number(besideReaders) - Number(started)]);
    for (const text of [`[${started} MiB, and ${onNode24} more on Node 24]`, `[${besideReaders} MiB]`, `less the ${started} of a process on Node 20`]) expect(table).toContain(text);
  });
});
