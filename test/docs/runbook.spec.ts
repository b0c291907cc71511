import { readFile } from 'node:fs/promises';
import { expect, it } from 'vitest';

it('the runbook has a section for each alert, to which the alert links', async () => {
  const rules = await readFile('deploy/prometheus/load-data-service.rules.yml', 'utf8');
  const alerts = rules.split(/^ {6}- alert: /m).slice(1);
  expect(alerts.length).toBeGreaterThan(9);
  const page = await readFile('docs/runbook.md', 'utf8');
  const sections = [...page.matchAll(/^## (\w+)$/gm)].map(([, name = '']) => name);
  const links = alerts.map((alert) => ({ name: /^\w+/.exec(alert)?.[0] ?? '', link: /runbook: (\S+)/.exec(alert)?.[1] }));
  expect(links).toEqual(sections.map((name) => ({ name, link: `docs/runbook.md#${name.toLowerCase()}` })));
});
