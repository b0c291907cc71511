import { SERVICE } from '../uploads/competitors.mjs';
import { check, command, list, listAll } from './loads.mjs';

const DIRECT = { title: "Keycloak's Admin API" };
const JOSE = { title: "jose's jwtVerify" };

/**
 * Two entrants with the same load: direct calls to Keycloak, and the service. Each runs once before the measurement, so
 * that Keycloak and the service are warm.
 */
const both = (load) => ({
  direct: { competitor: DIRECT, load: load('direct'), users: 20_000, warmUp: true },
  service: { competitor: SERVICE, load: load('service'), users: 20_000, warmUp: true },
});

/**
 * The entrants of each contest, by the contest's name. Entrants are measured in alternation. Each has its load, and the
 * minimum number of users in the realm.
 */
export const CONTESTS = {
  roles: both(list('roles')),
  users: both(list('users')),
  'create-role': both(command('create-role')),
  'assign-role': both(command('assign-role')),
  'create-user': both(command('create-user')),
  'update-user': both(command('update-user')),
  'all-users': {
    service: { competitor: SERVICE, load: listAll, users: 100_000 },
  },
  guard: {
    service: { competitor: SERVICE, load: check('service'), users: 0 },
    jose: { competitor: JOSE, load: check('jose'), users: 0 },
  },
};
