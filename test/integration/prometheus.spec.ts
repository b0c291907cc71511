import { cp, readdir, readFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Azurite, startAzurite } from '../servers/azurite.mjs';
import { isPrometheusAvailable, type Prometheus, runPromtool, startPrometheus } from '../servers/prometheus.mjs';
import { freePort } from '../servers/server.mjs';
import { type ServiceProcess, Workspace } from '../support/process.js';
import { WebhookReceiver } from '../support/webhook-receiver.js';

const CONFIGURATION = 'deploy/prometheus/prometheus.yml';
const RULES = 'deploy/prometheus/load-data-service.rules.yml';
const RULE_TESTS = ['deploy/prometheus/load-data-service.rules.test.yml', 'deploy/prometheus/error-budget.test.yml'];
const DASHBOARD = 'deploy/grafana/load-data-service.json';
const JOB = 'load-data-service';
const NAMESPACE = 'grid';
const CONTAINER = 'load-data';
const PATIENCE = { timeout: 60_000, interval: 500 };
/** What promtool says about the metrics of Node, whose names are those of prom-client. */
const OF_NODE = ['active_handles', 'active_requests', 'active_resources'].map((name) => `nodejs_${name}_total non-counter metrics should not have "_total" suffix`);
const PACE_MS = 100;
const UPLOAD = '/ingestNowcastLoadData/upload_nowcast?customer_id=acme&filename=load.csv&manufacturer=Acme';

interface Panel {
  readonly title: string;
  readonly targets?: readonly { readonly expr: string }[];
}

/** A variable of the dashboard. The query of the data source is a text. */
interface TemplateVariable {
  readonly name: string;
  readonly definition?: string;
  readonly query: string | { readonly query: string };
}

/**
 * Each query of the dashboard, with the title of its panel or the name of its variable, as Grafana sends it for all jobs
 * and instances of a namespace; default: of all namespaces. The query of a variable is for the series that have its
 * label.
 */
async function queries(namespace = '.*'): Promise<{ title: string; expression: string }[]> {
  const { panels, templating } = JSON.parse(await readFile(DASHBOARD, 'utf8')) as { panels: Panel[]; templating: { list: TemplateVariable[] } };
  const ofVariables = templating.list.flatMap(({ name, definition, query }) => {
    if (typeof query === 'string') return [];
    expect(definition).toBe(query.query);
    const [, metric = '', matchers = '', label = ''] = /^label_values\((\w+)(?:\{(.*)\})?, (\w+)\)$/.exec(query.query) ?? [];
    return [{ title: `$${name}`, expr: `${metric}{${matchers ? `${matchers}, ` : ''}${label}!=""}` }];
  });
  const written = [...ofVariables, ...panels.flatMap(({ title, targets = [] }) => targets.map(({ expr }) => ({ title, expr })))];
  return written.map(({ title, expr }) => ({ title, expression: expr.replaceAll('$namespace', namespace).replace(/\$(?:job|instance)/g, '.*').replaceAll('$__rate_interval', '10s') }));
}

/** Uploads to a service, and lists its roles, some times a second until the signal aborts. */
async function load({ url }: ServiceProcess, token: string, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    const answers = await Promise.all([
      fetch(url + UPLOAD, { method: 'POST', headers: { 'content-type': 'text/csv' }, body: 'a,b' }),
      fetch(url + UPLOAD, { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{"additional_data":"meter 7"}' }),
      fetch(`${url}/idpManagementBackend/roles`, { headers: { authorization: `Bearer ${token}` } }),
    ]);
    await Promise.all(answers.map((answer) => answer.arrayBuffer()));
    await delay(PACE_MS);
  }
}

/** Each `eval_time` of a file of rule tests, with the alert and whether it fires then. */
const cases = (text: string) => [...text.matchAll(/alertname: (\w+)\n +exp_alerts:( \[\])?\n/g)].map(([, alert = '', none]) => ({ alert, fires: none === undefined }));

describe.runIf(isPrometheusAvailable())('the rules', () => {
  it('are valid, and so is the configuration that loads them and sends alerts to an Alertmanager', async () => {
    expect(await runPromtool(['check', 'config', CONFIGURATION])).toEqual({ code: 0, output: expect.stringMatching(/SUCCESS: \d+ rules found/) as string });
    expect(await readFile(CONFIGURATION, 'utf8')).toMatch(/^alerting:\n {2}alertmanagers:\n(?: .*\n)*? +- targets: \['.+'\]$/m);
  });

  it.each(RULE_TESTS)('alert when they should: %s', async (file) => {
    expect(await runPromtool(['test', 'rules', file])).toEqual({ code: 0, output: expect.stringContaining('SUCCESS') as string });
  });

  it('are each tested, with an alert and without', async () => {
    const [rules = '', ...tests] = await Promise.all([RULES, ...RULE_TESTS].map((file) => readFile(file, 'utf8')));
    const tested = tests.flatMap(cases);
    const names = [...rules.matchAll(/- alert: (\w+)/g)].map(([, name]) => name);
    for (const fires of [true, false]) expect(new Set(tested.filter((each) => each.fires === fires).map(({ alert }) => alert)), fires ? 'fires' : 'is silent').toEqual(new Set(names));
  });

  it('have a section each in the runbook', async () => {
    const [rules, runbook] = await Promise.all([RULES, 'docs/runbook.md'].map((file) => readFile(file, 'utf8')));
    const names = [...(rules ?? '').matchAll(/- alert: (\w+)/g)].map(([, name]) => name);
    const links = [...(rules ?? '').matchAll(/runbook_url: docs\/runbook\.md#(\w+)/g)].map(([, anchor]) => anchor);
    const headings = [...(runbook ?? '').matchAll(/^## (\w+)$/gm)].map(([, heading]) => heading);
    expect(headings).toEqual(names);
    expect(links).toEqual(names.map((name) => name?.toLowerCase()));
  });
});

describe.runIf(isPrometheusAvailable())('the command of docs/monitoring.md', () => {
  it('starts a Prometheus that writes into a directory of its own only', async () => {
    const [, command = ''] = /^```sh\n(prometheus .*)\n```$/m.exec(await readFile('docs/monitoring.md', 'utf8')) ?? [];
    expect(await readFile(CONFIGURATION, 'utf8')).toContain(`# ${command}\n`);
    const workspace = await Workspace.create();
    try {
      await cp('deploy/prometheus', join(workspace.directory, 'deploy/prometheus'), { recursive: true });
      const address = `127.0.0.1:${await freePort()}`;
      workspace.run('sh', ['-c', `exec ${command} --web.listen-address=${address}`], {});
      const isReady = () => fetch(`http://${address}/-/ready`).then(({ ok }) => ok, () => false);
      await expect.poll(isReady, PATIENCE).toBe(true);
      expect((await readdir(workspace.directory)).sort()).toEqual(['deploy', 'prometheus-data']);
    } finally {
      await workspace.dispose();
    }
  });
});

describe.runIf(isPrometheusAvailable())('a Prometheus that scrapes services under load', () => {
  let workspace: Workspace;
  let azurite: Azurite;
  let webhook: WebhookReceiver;
  let services: ServiceProcess[];
  let prometheus: Prometheus;
  const end = new AbortController();
  let loads: Promise<unknown>;

  beforeAll(async () => {
    workspace = await Workspace.create();
    [azurite, webhook] = await Promise.all([startAzurite(), WebhookReceiver.answering()]);
    await azurite.createContainer(CONTAINER);
    const onDisk = await workspace.start(webhook.variables);
    const inBucket = await workspace.start({ DATA_DIR: `${workspace.directory}/bucket`, FILE_STORAGE: 'azure', AZURE_STORAGE_CONTAINER: CONTAINER, AZURE_STORAGE_CONNECTION_STRING: azurite.connectionString });
    services = [onDisk, inBucket];
    const tokens = [await workspace.token(), await workspace.token([], { DATA_DIR: `${workspace.directory}/bucket` })];
    loads = Promise.all(services.map((service, index) => load(service, tokens[index]?.stdout.trim() ?? '', end.signal)));
    const hosts = services.map(({ origin }) => new URL(origin).host);
    // Outside of Kubernetes, series have no namespace.
    const targets = hosts.map((host, index) => ({ host, labels: index === 0 ? undefined : { namespace: NAMESPACE } }));
    prometheus = await startPrometheus({ job: JOB, targets, rules: resolve(RULES) });
  });
  afterAll(async () => {
    end.abort();
    await loads;
    await prometheus.stop();
    await workspace.dispose();
    await Promise.all([azurite.stop(), webhook.close()]);
  });

  it('finds something for each query of the dashboard', async () => {
    const all = await queries();
    expect(all.length).toBeGreaterThan(30);
    const empty = async () => {
      const found = await Promise.all(all.map(async (query) => ({ ...query, series: await prometheus.query(query.expression) })));
      return found.filter(({ series }) => series.length === 0 || series.every(({ value: [, value] }) => value === 'NaN')).map(({ title, expression }) => `${title}: ${expression}`);
    };
    await expect.poll(empty, PATIENCE).toEqual([]);
  });

  it('finds only the series of the chosen namespace', async () => {
    const search = async (namespace: string) => {
      const all = (await queries(namespace)).filter(({ title }) => title !== '$namespace');
      const found = await Promise.all(all.map(async (query) => ({ ...query, series: await prometheus.query(query.expression) })));
      return found.filter(({ series }) => series.length > 0).map(({ title, expression }) => `${title}: ${expression}`);
    };
    await expect.poll(() => search(NAMESPACE), PATIENCE).not.toEqual([]);
    expect(await search('another')).toEqual([]);
  });

  it('knows each metric of the rules', async () => {
    const rules = await readFile(RULES, 'utf8');
    const metrics = new Set([...rules.matchAll(/\b([a-z_]+)\{/g)].map(([, name = '']) => name));
    expect(metrics.size).toBeGreaterThan(8);
    const unknown = async () => {
      const found = await Promise.all([...metrics].map(async (metric) => ({ metric, series: await prometheus.query(metric) })));
      return found.filter(({ series }) => series.length === 0).map(({ metric }) => metric);
    };
    await expect.poll(unknown, PATIENCE).toEqual([]);
  });

  it('sees no alert while the services are healthy', async () => {
    expect(await prometheus.query('ALERTS{alertstate="firing"}')).toEqual([]);
  });

  it('gets metrics whose names and units follow the conventions', async () => {
    for (const { url } of services) {
      const metrics = await (await fetch(`${url}/metrics`)).text();
      const { output } = await runPromtool(['check', 'metrics'], metrics);
      expect(output.trim().split('\n').sort()).toEqual(OF_NODE);
    }
  });
});
