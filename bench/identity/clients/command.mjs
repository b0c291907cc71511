// Repeats one command, such as create-user, over several connections, directly at Keycloak or through the service.
// Prints the outcome as JSON, with the number of commands that were answered, also in the warm-up.
import { randomUUID } from 'node:crypto';
import { composedRole, UPDATE_PASSWORD } from '../../../dist/identity-management/adapters/out/keycloak/realm.js';
import { figuresOf } from '../../support/latencies.mjs';
import { HttpClient, OtherStatus } from './http-client.mjs';

const { urls, command, way, users, roles, connections, warmUpSeconds, seconds } = JSON.parse(process.argv[2]);
const client = new HttpClient({ urls, connections, token: process.env.ACCESS_TOKEN });

const AUDIENCE = 'load-data-api';
const PERMISSIONS = ['upload:historical', 'read:users'];

/**
 * For each command, the fewest direct calls to Keycloak that do the same work as the service. The client already knows
 * the names of the roles, so it need not read them.
 */
const DIRECT = {
  'create-role': async ({ name }) => {
    await client.send('POST', '/roles', composedRole(name, AUDIENCE, PERMISSIONS), 201);
    // Keycloak's answer to the creation of a role has no role id, so the role is read to get it.
    await client.get(`/roles/${encodeURIComponent(name)}`);
  },
  'assign-role': ({ user, role }) => giveRole(user, role),
  'create-user': async ({ email, name, role }) => {
    const user = { username: email, email, firstName: name, lastName: '', enabled: true, requiredActions: [UPDATE_PASSWORD] };
    const { location } = await client.send('POST', '/users', user, 201);
    await giveRole(location.split('/').at(-1), role);
  },
  'update-user': ({ user, name }) => client.send('PUT', `/users/${user}`, { firstName: name, lastName: '' }, 204),
};
const giveRole = (user, role) => client.send('POST', `/users/${user}/role-mappings/realm`, [role], 204);

const THROUGH_THE_SERVICE = {
  'create-role': ({ name }) => client.send('POST', '/create-role', { role_name: name, permissions: PERMISSIONS }, 201),
  'assign-role': ({ user, role }) => client.send('POST', '/assign-role', { user_id: `keycloak|${user}`, role_id: role.id }, 200),
  'create-user': ({ email, name, role }) => client.send('POST', '/create-user', { email, name, roles: [role.id] }, 201),
  'update-user': ({ user, name }) => client.send('POST', '/update-user', { user_id: `keycloak|${user}`, new_name: name }, 200),
};

const perform = (way === 'direct' ? DIRECT : THROUGH_THE_SERVICE)[command];
const any = (items) => items[Math.floor(Math.random() * items.length)];

async function performFor(duration) {
  const latencies = [];
  const others = {};
  const began = performance.now();
  const work = async (_, connection) => {
    // Each connection has its own users, because Keycloak refuses some simultaneous changes of one user.
    const own = users.filter((user, index) => index % connections === connection);
    while (performance.now() - began < duration * 1000) {
      const unique = randomUUID();
      const values = { user: any(own), role: any(roles), name: `Name ${unique}`, email: `${unique}@grid.example` };
      const sent = performance.now();
      try {
        await perform(values);
        latencies.push(performance.now() - sent);
      } catch (error) {
        if (!(error instanceof OtherStatus)) throw error;
        others[error.message] = (others[error.message] ?? 0) + 1;
      }
    }
  };
  await Promise.all(Array.from({ length: connections }, work));
  return { figures: figuresOf(latencies, (performance.now() - began) / 1000), others, count: latencies.length };
}

const warmUp = await performFor(warmUpSeconds);
const measured = await performFor(seconds);
console.log(JSON.stringify({ ...measured, count: warmUp.count + measured.count }));
process.exit();
