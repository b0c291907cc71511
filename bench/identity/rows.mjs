import { atLeast, atMost, below, either, noLater, row } from '../support/goals.mjs';

const againstDirect = (name, work, goal) => row(name, work, name, ['service', 'median'], ['direct', 'median'], goal);
const command = (name) => againstDirect(name, `${name}, median`, noLater(0.1, 3));

/**
 * The rows of the bench. The rows that measure lists of users and roles come before those that measure commands,
 * because the commands create users and roles and so make the lists longer.
 *
 * Figures: median (ms), growth (MiB), pages (answered by Keycloak before the first byte of a list), rate (checks/s).
 */
export const ROWS = [
  againstDirect('roles', 'GET /roles with 5,000', atMost(1.1)),
  againstDirect('users', 'GET /users with 20,000', atMost(1.1)),
  command('update-user'),
  command('assign-role'),
  command('create-user'),
  command('create-role'),
  row('memory', 'GET /users with 100,000, growth of memory', 'all-users', ['service', 'growth'], undefined, below(50, 'MiB')),
  row('first-byte', 'GET /users with 100,000, first byte', 'all-users', ['service', 'pages'], undefined, below(2, 'pages')),
  row('guard', 'the guard alone, on one core', 'guard', ['service', 'rate'], ['jose', 'rate'], either(atLeast(0.9), 8_000, '/s')),
];
