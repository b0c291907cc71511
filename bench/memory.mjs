import { spawn } from 'node:child_process';
import { createHash, randomBytes, randomUUID } from 'node:crypto';
import { request } from 'node:http';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { Readable } from 'node:stream';
import { json } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { MemoryMeter } from './support/memory-meter.mjs';
import { Progress } from './support/progress.mjs';
import { withServices } from './support/service.mjs';

const MIB = 1024 * 1024;
const FILE_BYTES = 1024 * MIB;
const USERS = 100_000;
const IDLE_MS = 60_000;
const TARGET = '/ingestHistoricalLoadData/upload_historical?customer_id=c&filename=big.bin&manufacturer=m';
const FORM_HEAD = '--b\r\nContent-Disposition: form-data; name="file"; filename="big.bin"\r\n\r\n';
const FORM_TAIL = '\r\n--b--\r\n';

/**
 * Measures the service's memory while nobody uses it, and how much it grows while it receives large files and answers
 * with long lists, which it must not hold in memory. Each row of the table has its own service.
 *
 * @param {string[]} parameters
 */
export default async function memory(parameters) {
  const { values } = parseArgs({ args: parameters, options: { only: { type: 'string', default: '' } } });
  const rows = [];
  for (const [title, measure] of Object.entries(ROWS)) if (title.includes(values.only)) rows.push({ title, ...(await withServices(measure)) });
  console.table(Object.fromEntries(rows.map(({ title, columns }) => [title, columns])));
  return rows.every(({ ok }) => ok);
}

const mib = (bytes) => `${Math.round(bytes / MIB)} MiB`;

const ROWS = {
  idle,
  '1 GiB raw': (services) => upload(services, '1 GiB raw', { type: 'text/csv' }),
  '1 GiB form': (services) => upload(services, '1 GiB form', { type: 'multipart/form-data; boundary=b', head: FORM_HEAD, tail: FORM_TAIL }),
  '100,000 users': listEmbeddedUsers,
  "100,000 users of Auth0's": listAuth0Users,
};

function digestOf(chunk) {
  const hash = createHash('sha256');
  for (let bytes = 0; bytes < FILE_BYTES; bytes += chunk.length) hash.update(chunk);
  return `sha-256=:${hash.digest('base64')}:`;
}

/** Measures the memory of a service that nobody uses. The goal is at most 100 MiB. */
async function idle(services) {
  const service = await services.start();
  const meter = new MemoryMeter(service.child.pid);
  await meter.begin();
  await delay(IDLE_MS);
  const now = await meter.now();
  const { before, peak } = await meter.read();
  return { ok: now <= 100 * MIB, columns: { before: mib(before), peak: mib(peak), result: `${mib(now)} after ${IDLE_MS / 1000} s` } };
}

/** Uploads a large file, and generates it meanwhile, so that this process never holds the file in memory. */
async function upload(services, title, { type, head, tail }) {
  const chunk = randomBytes(MIB);
  const service = await services.start();
  const progress = new Progress();
  async function* body() {
    if (head) yield head;
    for (let bytes = 0; bytes < FILE_BYTES; bytes += chunk.length) {
      progress.show(`${title}: ${bytes / MIB} MiB`);
      yield chunk;
    }
    if (tail) yield tail;
  }
  const answer = await measured(service, async () => {
    const sent = request(service.url + TARGET, { method: 'POST', headers: { 'Content-Type': type } });
    const answered = new Promise((done, failed) => sent.once('response', done).once('error', failed));
    await pipeline(Readable.from(body()), sent);
    return answered;
  });
  progress.clear();
  const ok = answer.result.statusCode === 200 && answer.result.headers['x-upload-digest'] === digestOf(chunk);
  const rate = `${Math.round(FILE_BYTES / MIB / answer.seconds)} MiB/s`;
  return { ok, columns: { ...answer.row, rate, result: ok ? '200, digest right' : 'WRONG' } };
}

async function listEmbeddedUsers(services) {
  await fillDatabase(services.data);
  const service = await services.start();
  return listUsers(service, await service.token());
}

/** Measures a list of the 100,000 users of a stand-in for an Auth0 tenant, which runs in its own process. */
async function listAuth0Users(services) {
  const { TOKEN, ...variables } = await startTenant(services);
  return listUsers(await services.start(variables), TOKEN);
}

async function listUsers(service, token) {
  const { result: users, seconds, row } = await measured(service, async () => {
    const listed = request(`${service.url}/idpManagementBackend/users`, { headers: { Authorization: `Bearer ${token}` } });
    const answered = new Promise((done, failed) => listed.once('response', done).once('error', failed));
    listed.end();
    return (await json(await answered)).users;
  });
  const distinct = new Set(users.map(({ user_id }) => user_id)).size;
  const columns = { ...row, rate: `${Math.round(USERS / seconds)} users/s`, result: `${distinct} users` };
  return { ok: distinct === USERS && users.length === USERS, columns };
}

/** @returns the variables of a service that uses a new stand-in for Auth0, and a token for callers as `TOKEN`. */
async function startTenant(services) {
  const tenant = spawn(process.execPath, ['test/servers/auth0.mjs', String(USERS)], { stdio: ['ignore', 'pipe', 'inherit'] });
  services.atEnd(() => tenant.kill());
  const variables = {};
  for await (const line of createInterface({ input: tenant.stdout })) {
    const [, name, value] = /^export (\w+)=(.*)$/.exec(line) ?? [];
    if (name === undefined) return variables;
    variables[name] = value;
  }
  throw new Error('The stand-in for an Auth0 tenant did not start.');
}

/** Writes users directly into the database, because creating them through the service isn't what is measured. */
async function fillDatabase(data) {
  const embedded = resolve('dist/identity-management/adapters/out/embedded');
  const { EmbeddedIdentityProvider } = await import(join(embedded, 'embedded.identity-provider.adapter.js'));
  const { openIdentityDatabase } = await import(join(embedded, 'identity-database.js'));
  const { immediately } = await import(join(embedded, 'identity-writer.js'));
  await (await EmbeddedIdentityProvider.open(data)).close();
  const database = await openIdentityDatabase(join(data, 'identity/identity.db'));
  await immediately(database, () => {
    const insert = database.prepare('INSERT INTO users (user_id, email, name) VALUES (?, ?, ?)');
    for (let user = 0; user < USERS; user++) insert.run(`embedded|${randomUUID()}`, `user${user}@grid.example`, `User ${user}`);
  });
  database.close();
}

async function measured(service, work) {
  const meter = new MemoryMeter(service.child.pid);
  await meter.begin();
  const begin = performance.now();
  const result = await work();
  const seconds = (performance.now() - begin) / 1000;
  const { before, peak, growth } = await meter.read();
  return { result, seconds, row: { before: mib(before), peak: mib(peak), growth: mib(growth), time: `${seconds.toFixed(1)} s` } };
}
