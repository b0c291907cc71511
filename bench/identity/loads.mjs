import { request } from 'node:http';
import { json } from 'node:stream/consumers';
import { runClient } from '../support/client.mjs';
import { MemoryMeter } from '../support/memory-meter.mjs';
import { CountingProxy } from './counting-proxy.mjs';

const MIB = 1024 * 1024;
const MOST_WARM_UP_SECONDS = 2;

/**
 * One measurement of an entrant. Resolves to its figures.
 *
 * @typedef {(context: { stage: object, seconds: number, connections: number, signal: AbortSignal }) =>
 *   Promise<import('../support/contests.mjs').Outcome>} Load
 */

/**
 * @returns {Load} median and p99 (ms) and rate (/s) of one of the four commands, sent over several connections, and the
 *   processor time that Keycloak and the service use for one (ms).
 */
export const command = (name) => (way) => async ({ stage, seconds, connections, signal }) => {
  const { users, roles } = await stage.some();
  const job = { command: name, way, users, roles, connections, seconds, warmUpSeconds: Math.min(seconds, MOST_WARM_UP_SECONDS) };
  const before = await stage.processorSeconds();
  const { figures, others, count } = await run('command', await stage.access(way), job, signal);
  const after = await stage.processorSeconds();
  const each = (name) => (1000 * (after[name] - before[name])) / count;
  return { figures: { ...figures, keycloak: each('keycloak'), service: each('service') }, others };
};

/** @returns {Load} median time (ms) until a caller has the complete list of users or roles. */
export const list = (member) => (way) => async ({ stage, seconds, signal }) =>
  run('list', await stage.access(way), { member, way, seconds, expected: await stage.count(member) }, signal);

/** @returns {Load} rate (/s) at which one access token is verified, with the issuer's keys in memory. */
export const check = (way) => async ({ stage, seconds, signal }) => {
  const { token } = await stage.access('service');
  return run('check', { token }, { way, seconds, ...(await stage.issuer()) }, signal);
};

/**
 * Lists all users through a new service. Measures how much the memory of this service grows (MiB), and how many pages
 * of users Keycloak has answered when the first byte of the service's list arrives.
 */
export async function listAll({ stage, signal }) {
  const proxy = await CountingProxy.start(stage.endpoint, (path) => path.includes('/users?'));
  try {
    return await stage.withFreshService(proxy.endpoint, async (service, { token }) => {
      const meter = new MemoryMeter(service.child.pid);
      await meter.begin();
      const sent = request(`${service.url}/idpManagementBackend/users`, { headers: { authorization: `Bearer ${token}` }, signal });
      const answered = new Promise((done, failed) => sent.once('response', done).once('error', failed));
      sent.end();
      const answer = await answered;
      const pages = new Promise((done) => answer.once('data', () => done(proxy.answered)));
      const { users } = await json(answer);
      const { growth } = await meter.read();
      const distinct = new Set(users.map(({ user_id: id }) => id)).size;
      const others = distinct === (await stage.count('users')) ? {} : { [`a list of ${distinct}`]: 1 };
      return { figures: { growth: growth / MIB, pages: await pages }, others };
    });
  } finally {
    await proxy.stop();
  }
}

const run = (client, { urls, token }, job, signal) =>
  runClient(new URL(`clients/${client}.mjs`, import.meta.url), { urls, ...job }, signal, { ACCESS_TOKEN: token });
