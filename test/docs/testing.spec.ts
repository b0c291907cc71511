import { readFile } from 'node:fs/promises';
import { beforeAll, describe, expect, it } from 'vitest';

let page: string;
beforeAll(async () => {
  page = await readFile('docs/testing.md', 'utf8');
});

/** The text under a heading of the page. */
function section(heading: string): string {
  const [, text] = page.split(`\n## ${heading}\n`);
  if (text === undefined) throw new Error(`The page has no heading ${heading}.`);
  return text.split('\n## ')[0] ?? '';
}

/** The rows of the table with a head that begins like this, as cells. */
function rowsBelow(head: string, text: string): string[][] {
  const [, table = ''] = text.split(`\n${head}`);
  const [, , ...rows] = table.split('\n\n')[0]?.trimEnd().split('\n') ?? [];
  return rows.map((row) => row.split('|').slice(1, -1).map((cell) => cell.trim()));
}

const numberIn = (text = ''): number => Number(text.replaceAll(',', ''));

describe('docs/testing.md: the restarts of replicas', () => {
  const restarts = () => rowsBelow('| replicas, part |', section('Restart replicas'));

  it('are as many as ten rounds make', () => {
    const rounds = Number(/`--rounds=(\d+)`/.exec(section('Restart replicas'))?.[1]);
    expect(rounds).toBe(10);
    const rows = restarts();
    expect(rows.length).toBeGreaterThan(4);
    for (const [title = '', count] of rows) {
      // New secrets need two restarts in a round, and so do another version and the way back.
      const inRound = /another version|new secrets/.test(title) ? 2 : 1;
      expect([title, Number(count)]).toEqual([title, Number.parseInt(title, 10) * rounds * inRound]);
    }
  });

  it('lost nothing, stored nothing twice, and failed only requests that may fail, as docs/versions.md says too', async () => {
    const versions = await readFile('docs/versions.md', 'utf8');
    expect(versions).toContain('nothing was lost or stored twice, even when replicas were killed. By SIGTERM, requests failed while 1.0.0 stopped:');
    for (const [title = '', , , failed = '', notInFlight, ...others] of restarts()) {
      const [, whileNoneStopped = '0'] = /while 1\.0\.0 stopped, (\d+) while no replica did$/.exec(failed) ?? [];
      expect([title, notInFlight, ...others]).toEqual([title, whileNoneStopped, '0', '0']);
      if (title.includes('kill -9')) expect(failed, title).toMatch(/^(?:0|[\d,]+ and [\d,]+, all in flight)$/);
      else if (title.includes('another version')) expect(failed, title).toMatch(/^(?:0|[\d,]+ and [\d,]+(?:, all while 1\.0\.0 stopped|: \d+ while 1\.0\.0 stopped, \d+ while no replica did))$/);
      else expect(failed, title).toBe('0');
    }
  });
});

describe('docs/testing.md: the soak', () => {
  const soak = () => section('Run the service for hours');
  const head = () => /^\| \| local, ([\d,]+) requests \| distributed, ([\d,]+) requests \|$/m.exec(soak());
  const rows = () => rowsBelow('| | local, ', soak());

  it('sent as many requests as its rates make', () => {
    const [, minutes] = /^Two runs of (\d+) minutes /m.exec(soak()) ?? [];
    const [, ...rates] = /, (\d+) requests a second on the local disk and (\d+) in a bucket, /.exec(soak()) ?? [];
    const sent = head()?.slice(1).map(numberIn) ?? [];
    expect([sent.length, rates.length]).toEqual([2, 2]);
    for (const [index, rate] of rates.entries()) expect((sent[index] ?? NaN) / (Number(rate) * Number(minutes) * 60)).toBeCloseTo(1, 2);
  });

  it('found that nothing grew by more than it allows but pages of uploads, where that is marked', () => {
    const most = Number(/more than ([\d.]+) \(`--most-growth`\)/.exec(soak())?.[1]);
    expect(rows().length).toBeGreaterThan(8);
    for (const [title = '', ...cells] of rows()) {
      expect(cells, title).toHaveLength(2);
      for (const cell of cells) {
        const ratios = cell.split(': ')[1]?.split(', ') ?? [];
        expect(ratios, title).toHaveLength(2);
        for (const ratio of ratios) {
          const [, marked, plain] = /^(?:\*\*(\d\.\d\d)\*\*|(\d\.\d\d))$/.exec(ratio) ?? [];
          if (marked === undefined) expect(Number(plain), title).toBeLessThanOrEqual(most);
          else expect([title, Number(marked) > most]).toEqual(['page of uploads', true]);
        }
      }
    }
  });

  it('had the memory in use in a bucket that the README of the Helm chart says', async () => {
    const [, , distributed = ''] = rows().find(([title]) => title === 'memory') ?? [];
    const most = Math.max(...(/^(\d+) to (\d+) MiB/.exec(distributed) ?? []).slice(1).map(Number));
    expect(await readFile('deploy/helm/load-data-service/README.md', 'utf8')).toContain(`under a mixed load on a bucket, [${most} MiB](../../../docs/testing.md#run-the-service-for-hours) were in use`);
  });
});
