import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { isHelmAvailable, readManifests } from '../servers/helm.mjs';
import { isPrometheusAvailable, runPromtool } from '../servers/prometheus.mjs';
import { Chart, type Manifest, ofKind } from '../support/helm-chart.js';

const RULES = 'deploy/prometheus/load-data-service.rules.yml';

describe.runIf(isHelmAvailable())('the rules and alerts of the Helm chart', () => {
  let chart: Chart;
  beforeAll(async () => {
    chart = await Chart.create();
  });
  afterAll(() => chart.dispose());

  it('are those of deploy/prometheus, for the pods of the release only', async () => {
    const rules = (await readFile(RULES, 'utf8')).replaceAll('job=~".*load-data.*"', 'namespace="load", job="load-data-ingest"');
    const [[read] = []] = (await readManifests([rules], [])).objects;
    const objects = await chart.render({ fullnameOverride: 'ingest', serviceMonitor: { enabled: true }, prometheusRule: { enabled: true } });
    expect(ofKind(objects, 'ServiceMonitor')?.spec?.endpoints?.[0]?.relabelings?.[0]?.replacement).toBe('load-data-ingest');
    const inChart = ofKind(objects, 'PrometheusRule')?.spec;
    expect(inChart).toEqual(read);
    expect(inChart?.groups?.[0]?.rules.length).toBeGreaterThan(9);
    if (!isPrometheusAvailable()) return;
    const file = join(chart.directory, 'rules.json');
    await writeFile(file, JSON.stringify(inChart));
    expect(await runPromtool(['check', 'rules', file])).toEqual({ code: 0, output: expect.stringContaining('SUCCESS') as string });
  });

  it.runIf(isPrometheusAvailable())('are kept apart for two releases of the same name, and come once', async () => {
    const files = await Promise.all(['one', 'two'].map(async (namespace) => {
      const manifests = [await chart.template({ prometheusRule: { enabled: true } }, { parameters: ['--namespace', namespace] })];
      const [objects = []] = (await readManifests(manifests, [])).objects as Manifest[][];
      const file = join(chart.directory, `rules-${namespace}.json`);
      await writeFile(file, JSON.stringify(ofKind(objects, 'PrometheusRule')?.spec));
      return file;
    }));
    const labels = (namespace: string, others = '') => `{namespace="${namespace}", job="load-data-service", instance="a"${others}}`;
    const requests = (namespace: string, status: number, values: string) => ({ series: `http_requests_total${labels(namespace, `, route="/uploads", status="${status}"`)}`, values });
    const test = {
      interval: '1m',
      input_series: [
        { series: `up${labels('one')}`, values: '1x40' },
        { series: `load_data_events_lag_seconds${labels('one')}`, values: '1000x40' },
        { series: `load_data_events_lag_seconds${labels('two')}`, values: '0x40' },
        ...[requests('one', 500, '0+1x40'), requests('one', 200, '0+1x40'), requests('two', 200, '0+8x40')],
      ],
      promql_expr_test: [
        {
          expr: 'count by (alertname, namespace) (ALERTS{alertstate="firing", severity="page"} or ALERTS{alertname="LoadDataEventsLag"})',
          eval_time: '30m',
          exp_samples: [['LoadDataAbsent', 'two'], ['LoadDataErrorBudgetBurnsFast', 'one'], ['LoadDataEventsLag', 'one']].map(([name, namespace]) => ({ labels: `{alertname="${name}", namespace="${namespace}"}`, value: 1 })),
        },
        {
          expr: 'job:http_requests_failed:ratio_rate5m',
          eval_time: '30m',
          exp_samples: [['one', 0.5], ['two', 0]].map(([namespace, value]) => ({ labels: `job:http_requests_failed:ratio_rate5m{namespace="${namespace}", job="load-data-service"}`, value })),
        },
      ],
    };
    const file = join(chart.directory, 'two-releases.json');
    await writeFile(file, JSON.stringify({ rule_files: files, evaluation_interval: '1m', tests: [test] }));
    expect(await runPromtool(['test', 'rules', file])).toEqual({ code: 0, output: expect.stringContaining('SUCCESS') as string });
  });

  it('link to the runbook', async () => {
    const runbookUrl = 'https://wiki.example.com/load-data';
    const rules = ofKind(await chart.render({ prometheusRule: { enabled: true, runbookUrl } }), 'PrometheusRule')?.spec?.groups?.[0]?.rules ?? [];
    const alerts = (rules as { alert?: string; annotations?: { runbook_url: string } }[]).filter(({ alert }) => alert !== undefined);
    expect(alerts.length).toBeGreaterThan(9);
    expect(alerts.map(({ annotations }) => annotations?.runbook_url)).toEqual(alerts.map(({ alert = '' }) => `${runbookUrl}#${alert.toLowerCase()}`));
  });
});
