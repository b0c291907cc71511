import { readFile } from 'node:fs/promises';
import { expect, it } from 'vitest';

const RULES = 'deploy/prometheus/load-data-service.rules.yml';

it('the runbook has a section for each alert, to which the alert links', async () => {
  const rules = await readFile(RULES, 'utf8');
  const alerts = rules.split(/^ {6}- alert: /m).slice(1);
  expect(alerts.length).toBeGreaterThan(9);
  const page = await readFile('docs/runbook.md', 'utf8');
  const sections = [...page.matchAll(/^## (\w+)$/gm)].map(([, name = '']) => name);
  const links = alerts.map((alert) => ({ name: /^\w+/.exec(alert)?.[0] ?? '', link: /runbook_url: (\S+)/.exec(alert)?.[1] }));
  expect(links).toEqual(sections.map((name) => ({ name, link: `docs/runbook.md#${name.toLowerCase()}` })));
});

it('the Helm chart has a copy of the rules: after a change, copy them there', async () => {
  expect(await readFile('deploy/helm/load-data-service/files/load-data-service.rules.yml', 'utf8')).toBe(await readFile(RULES, 'utf8'));
});
