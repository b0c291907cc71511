// Lists all users or all roles repeatedly, directly from Keycloak or through the service. Prints the outcome as JSON.
import { ROLE_ATTRIBUTE } from '../../../dist/identity-management/adapters/out/keycloak/realm.js';
import { figuresOf } from '../../support/latencies.mjs';
import { HttpClient } from './http-client.mjs';

const { urls, member, way, seconds, expected } = JSON.parse(process.argv[2]);
const client = new HttpClient({ urls: urls.slice(0, 1), connections: 1, token: process.env.ACCESS_TOKEN });

/** The page size of direct requests, which is the same as that of the service's requests to Keycloak. */
const USERS_A_PAGE = 1_000;

const DIRECT = {
  roles: async () => {
    const { body } = await client.get('/roles?briefRepresentation=false');
    return body.filter(({ attributes }) => attributes[ROLE_ATTRIBUTE]?.includes('true'));
  },
  users: async () => {
    const users = [];
    for (let isLast = false; !isLast; ) {
      const { body } = await client.get(`/users?briefRepresentation=true&first=${users.length}&max=${USERS_A_PAGE}`);
      users.push(...body);
      isLast = body.length < USERS_A_PAGE;
    }
    return users;
  },
};
const all = way === 'direct' ? DIRECT[member] : async () => (await client.get(`/${member}`)).body[member];

async function listFor(duration) {
  const latencies = [];
  const others = {};
  const began = performance.now();
  do {
    const sent = performance.now();
    const { length } = await all();
    latencies.push(performance.now() - sent);
    if (length !== expected) others[`a list of ${length}`] = (others[`a list of ${length}`] ?? 0) + 1;
  } while (performance.now() - began < duration * 1000);
  return { figures: figuresOf(latencies, (performance.now() - began) / 1000), others };
}

console.log(JSON.stringify(await listFor(seconds)));
process.exit();
