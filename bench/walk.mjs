import { randomBytes } from 'node:crypto';
import { join, resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { withServices } from './support/service.mjs';
import { askBySignal } from './support/signal-question.mjs';

const UPLOAD = '/ingestHistoricalLoadData/upload_historical?customer_id=acme-energy&filename=load.csv&manufacturer=acme';
const WARM_UPS = 20;
const TAKES = 5;
/** The pause after a request, for the request's deferred work, such as its log line. This work counts too. */
const SETTLE_MS = 100;

const json = (value) => ({ headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(value) });
const file = (bytes) => ({ headers: { 'Content-Type': 'text/csv' }, body: randomBytes(bytes / 2).toString('hex') });

/** Makes a form in one piece, because the calls for a body grow with the pieces in which the body arrives. */
async function form(bytes) {
  const data = new FormData();
  data.set('file', new Blob([randomBytes(bytes)], { type: 'text/csv' }), 'load.csv');
  const whole = new Response(data);
  return { headers: { 'Content-Type': whole.headers.get('Content-Type') }, body: await whole.arrayBuffer() };
}

const REQUESTS = [
  { title: 'JSON upload', path: UPLOAD, most: [24, 120], send: () => json({ additional_data: 'meter replaced on 2003-12-04, see note 7' }) },
  { title: 'small file, raw', path: UPLOAD, most: [31, 180], send: () => file(4_096) },
  { title: '40 kB file, raw', path: UPLOAD, most: [31, 220], send: () => file(40_000) },
  { title: '40 kB form', path: UPLOAD, most: [33, 280], send: () => form(40_000) },
  { title: 'GET /users', path: '/idpManagementBackend/users', method: 'GET', most: [18, 100], isAllowed: true, send: () => ({}) },
  {
    title: 'create-role',
    path: '/idpManagementBackend/create-role',
    most: [23, 110],
    isAllowed: true,
    send: (count) => json({ role_name: `role ${count}`, permissions: ['read:users'] }),
  },
  { title: '403 without a token', path: '/idpManagementBackend/users', method: 'GET', most: [9, 35], status: 403, send: () => ({}) },
];

/** The files that only traces need. Without the variables of OpenTelemetry, a request runs no function of them. */
const OF_TRACES = /^(@opentelemetry|operations\/tracing|app\/trac)/;
const TRACED = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:1', OTEL_BSP_SCHEDULE_DELAY: '600000' };

/**
 * Counts the source files of the service that run for one request, and the calls of their functions, after a warm-up
 * and with the default settings (embedded identity provider, local disk). The counts come from V8's precise coverage
 * between two takes. Of five measurements, the one with the fewest calls is used. Of functions for traces, none may run
 * in any of the five.
 *
 * @param {string[]} parameters
 * @returns {Promise<boolean>} whether every goal is reached.
 */
export default async function walk(parameters) {
  const { values } = parseArgs({ args: parameters, options: { only: { type: 'string' }, show: { type: 'boolean', default: false } } });
  const chosen = REQUESTS.filter(({ title }) => title.includes(values.only ?? ''));
  const rows = await withServices(async (services) => {
    const counter = pathToFileURL(resolve('bench/walk/function-counter.mjs')).href;
    const counts = join(services.directory, 'counts');
    const start = (variables) => services.start({ NODE_OPTIONS: `--import ${counter}`, COUNTS_FILE: counts, LOG_LEVEL: 'info', ...variables }, resolve('bench/support/compiled-service.mjs'));
    const service = await start({});
    const token = await service.token();
    const measured = [];
    for (const request of chosen) measured.push(await measure(service, counts, token, request));
    await service.end('SIGTERM');
    await assertTracesAreCounted(await start(TRACED), counts);
    return measured;
  });
  console.table(Object.fromEntries(rows.map(({ title, columns }) => [title, columns])));
  if (values.show) for (const { title, files } of rows) show(title, files);
  return rows.every(({ ok }) => ok);
}

async function measure(service, counts, token, request) {
  const { title, most } = request;
  let sent = 0;
  const send = async () => {
    const { path, method = 'POST', status = 200, isAllowed = false } = request;
    const { headers, body } = await request.send(sent++);
    const answer = await fetch(service.url + path, { method, headers: { ...headers, ...(isAllowed && { Authorization: `Bearer ${token}` }) }, body });
    await answer.text();
    const isExpected = status === 200 ? answer.ok : answer.status === status;
    if (!isExpected) throw new Error(`${title}: ${answer.status}`);
  };
  for (let count = 0; count < WARM_UPS; count++) await send();
  await delay(SETTLE_MS);

  let least;
  const ofTraces = new Set();
  for (let take = 0; take < TAKES; take++) {
    const files = await countsOf(service, counts, send);
    const calls = Object.values(files).flatMap((functions) => Object.values(functions)).reduce((sum, count) => sum + count, 0);
    for (const name of Object.keys(files)) if (OF_TRACES.test(name)) ofTraces.add(name);
    if (!least || calls < least.calls) least = { files, calls };
  }
  const count = Object.keys(least.files).length;
  const ok = count <= most[0] && least.calls <= most[1] && ofTraces.size === 0;
  const columns = { files: count, calls: least.calls, goal: most.join(' / '), 'of traces': [...ofTraces].join(' ') || 'none', '': ok ? 'ok' : 'missed' };
  return { title, ok, files: least.files, columns };
}

/** The functions that run for one request, by file, with the number of their calls. */
async function countsOf(service, counts, send) {
  await takeCounts(service, counts);
  await send();
  await delay(SETTLE_MS);
  return takeCounts(service, counts);
}

/** Throws unless functions for traces are counted in a service with traces. Otherwise counting none proves nothing. */
async function assertTracesAreCounted(service, counts) {
  const upload = () => fetch(service.url + UPLOAD, { method: 'POST', ...json({}) });
  const names = Object.keys(await countsOf(service, counts, upload));
  for (const part of ['@opentelemetry/', 'operations/tracing/']) {
    if (!names.some((name) => name.startsWith(part))) throw new Error(`No function of ${part} was counted in a service with traces.`);
  }
}

const takeCounts = async (service, counts) => JSON.parse(await askBySignal(service, counts));

function show(title, files) {
  console.log(`\n${title}`);
  for (const [name, functions] of Object.entries(files)) {
    const calls = Object.entries(functions).map(([each, count]) => `${each.split('@')[0] || '(anonymous)'}${count > 1 ? ` x ${count}` : ''}`);
    console.log(`  ${name}: ${calls.join(', ')}`);
  }
}
