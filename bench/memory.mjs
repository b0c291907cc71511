import { createHash, randomBytes, randomUUID } from 'node:crypto';
import { request } from 'node:http';
import { join, resolve } from 'node:path';
import { Readable } from 'node:stream';
import { json } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';
import { MemoryMeter } from './support/memory-meter.mjs';
import { Progress } from './support/progress.mjs';
import { withServices } from './support/service.mjs';

const MIB = 1024 * 1024;
const FILE_BYTES = 1024 * MIB;
const USERS = 100_000;
const TARGET = '/ingestHistoricalLoadData/upload_historical?customer_id=c&filename=big.bin&manufacturer=m';
const FORM_HEAD = '--b\r\nContent-Disposition: form-data; name="file"; filename="big.bin"\r\n\r\n';
const FORM_TAIL = '\r\n--b--\r\n';

/** How much the service's memory grows by what must not be held in it. Each row is a service of its own. */
export default async function memory() {
  const chunk = randomBytes(MIB);
  const digest = digestOf(chunk);
  const rows = [
    await withServices((services) => upload(services, '1 GiB raw', { type: 'text/csv', chunk, digest })),
    await withServices((services) =>
      upload(services, '1 GiB form', { type: 'multipart/form-data; boundary=b', head: FORM_HEAD, tail: FORM_TAIL, chunk, digest }),
    ),
    await withServices(listUsers),
  ];
  console.table(Object.fromEntries(rows.map(({ title, columns }) => [title, columns])));
  return rows.every(({ ok }) => ok);
}

function digestOf(chunk) {
  const hash = createHash('sha256');
  for (let bytes = 0; bytes < FILE_BYTES; bytes += chunk.length) hash.update(chunk);
  return `sha-256=:${hash.digest('base64')}:`;
}

/** Sends a file that is made on the way, so that nobody holds it. */
async function upload(services, title, { type, head, tail, chunk, digest }) {
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
  const ok = answer.result.statusCode === 200 && answer.result.headers['x-upload-digest'] === digest;
  const rate = `${Math.round(FILE_BYTES / MIB / answer.seconds)} MiB/s`;
  return { title, ok, columns: { ...answer.row, rate, result: ok ? '200, digest right' : 'WRONG' } };
}

/** Lists users that stand in the embedded provider's database. */
async function listUsers(services) {
  await fillDatabase(services.data);
  const service = await services.start();
  const token = await service.token();
  const { result: users, seconds, row } = await measured(service, async () => {
    const listed = request(`${service.url}/idpManagementBackend/users`, { headers: { Authorization: `Bearer ${token}` } });
    const answered = new Promise((done, failed) => listed.once('response', done).once('error', failed));
    listed.end();
    return (await json(await answered)).users;
  });
  const distinct = new Set(users.map(({ user_id }) => user_id)).size;
  const columns = { ...row, rate: `${Math.round(USERS / seconds)} users/s`, result: `${distinct} users` };
  return { title: '100,000 users', ok: distinct === USERS, columns };
}

/** A hundred thousand requests would measure something else. */
async function fillDatabase(data) {
  const embedded = resolve('dist/identity-management/adapters/out/embedded');
  const { EmbeddedIdentityProvider } = await import(join(embedded, 'embedded.identity-provider.adapter.js'));
  const { immediately, openIdentityDatabase } = await import(join(embedded, 'identity-database.js'));
  (await EmbeddedIdentityProvider.open(data)).close();
  const database = await openIdentityDatabase(join(data, 'identity/identity.db'));
  immediately(database, () => {
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
  const mib = (bytes) => `${Math.round(bytes / MIB)} MiB`;
  return { result, seconds, row: { before: mib(before), peak: mib(peak), growth: mib(growth), time: `${seconds.toFixed(1)} s` } };
}
