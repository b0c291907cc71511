// Writes a DATA_DIR of a released version of the service, for test/e2e/older-stores.e2e.spec.ts:
// node test/stores/write.mjs <tarball of npm pack> test/stores/<version>
import { execFile } from 'node:child_process';
import { cp, readFile, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { withServices } from '../../bench/support/service.mjs';
import { programOf } from '../replicas/other-version.mjs';

/** The files of a DATA_DIR that aren't checked in: locks, files that SQLite recreates, and secrets. */
const LEFT_OUT = /(\.lock|-shm|signing-keys\.json|admin-secret)$/;
const PATHS = { historical: '/ingestHistoricalLoadData/upload_historical', nowcast: '/ingestNowcastLoadData/upload_nowcast' };
/** The variables of a webhook that nobody listens to, so that no event is delivered. */
const WEBHOOK = { EVENTS_WEBHOOK_URL: 'http://127.0.0.1:9/', EVENTS_WEBHOOK_SECRET: `whsec_${Buffer.alloc(32).toString('base64')}` };

const [tarball, target] = process.argv.slice(2);
const contents = JSON.parse(await readFile(join(import.meta.dirname, 'contents.json'), 'utf8'));

await withServices(async (services) => {
  services.program = await programOf(tarball, services.directory);
  const service = await services.start(WEBHOOK);
  const { stdout: token } = await promisify(execFile)(process.execPath, [join(dirname(services.program), 'commands/token.js')], { env: service.env });
  const ask = async (method, path, headers, body) => {
    const answer = await fetch(service.url + path, { method, headers: { Authorization: `Bearer ${token.trim()}`, ...headers }, body });
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
    return answer;
  };
  const upload = async ({ kind, customer, filename, type, body, key }) => {
    const query = new URLSearchParams({ customer_id: customer, filename, manufacturer: 'Meter Works' });
    const answer = await ask('POST', `${PATHS[kind]}?${query}`, { 'Content-Type': type, ...(key && { 'Idempotency-Key': key }) }, body);
    return answer.headers.get('x-upload-id');
  };
  const create = async (what, body) => (await ask('POST', `/idpManagementBackend/create-${what}`, { 'Content-Type': 'application/json' }, JSON.stringify(body))).json();

  for (const each of contents.uploads) await upload(each);
  await ask('DELETE', `/uploads/${await upload(contents.removed)}`);
  const roles = [];
  for (const role of contents.roles) roles.push((await create('role', role)).role_id);
  await create('user', { ...contents.user, roles: roles.slice(0, 1) });
  await service.end('SIGTERM');

  await rm(target, { recursive: true, force: true });
  await cp(services.data, target, { recursive: true, verbatimSymlinks: true, filter: (path) => !LEFT_OUT.test(path) });
});
