import { describe, expect, it } from 'vitest';
import { type Claims, toAccessToken } from './claims.js';

const read = (claims: Claims, audience = 'api') => toAccessToken({ sub: 's', ...claims }, audience);
const parsed = (text: string) => JSON.parse(text) as Claims;

describe('permissions', () => {
  it.each<[string, Claims, string[]]>([
    ['come from the claim', { permissions: ['read:users', 'read:roles', 'read:users'] }, ['read:users', 'read:roles']],
    ['come from the roles of Keycloak', { resource_access: { api: { roles: ['read:users'] } } }, ['read:users']],
    ['come from both', { permissions: ['a:b'], resource_access: { api: { roles: ['c:d'] } } }, ['a:b', 'c:d']],
    ['do not come from another client', { resource_access: { account: { roles: ['read:users'] } } }, []],
    ['do not come from the realm', { realm_access: { roles: ['read:users'] } }, []],
    ['do not come from the scope', { scope: 'read:users' }, []],
    ['are empty without claims', {}, []],
    ['do not come from a string', { permissions: 'read:users' }, []],
    ['do not come from an object', { permissions: { 0: 'read:users', length: 1 } }, []],
    ['come only from the strings of a list', { permissions: [1, null, ['read:users'], { toString: 'x' }, 'a:b'] }, ['a:b']],
    ['do not come from null', { permissions: null, resource_access: null }, []],
    ['do not come from a client that is null', { resource_access: { api: null } }, []],
    ['do not come from roles that are a string', { resource_access: { api: { roles: 'read:users' } } }, []],
    ['do not come from a string in place of an object', { resource_access: 'api' }, []],
  ])('%s', (_, claims, permissions) => {
    expect([...read(claims).permissions]).toEqual(permissions);
  });

  it('come only from own members, whatever the audience is called', () => {
    const inherited = parsed('{"resource_access":{"other":{"roles":["a:b"]}}}');
    for (const audience of ['__proto__', 'constructor', 'toString']) expect(read(inherited, audience).permissions.size).toBe(0);
    const own = parsed('{"resource_access":{"__proto__":{"roles":["a:b"]}}}');
    expect([...read(own, '__proto__').permissions]).toEqual(['a:b']);
    expect(read(parsed('{"resource_access":{"api":{"__proto__":{"roles":["a:b"]}}}}')).permissions.size).toBe(0);
    const heir = Object.create({ roles: ['a:b'] }) as unknown;
    expect(read({ resource_access: { api: heir } }).permissions.size).toBe(0);
    expect(read({ resource_access: Object.create({ api: { roles: ['a:b'] } }) as unknown }).permissions.size).toBe(0);
  });
});

describe('customers', () => {
  it.each<[unknown, string[]]>([
    ['*', ['*']],
    ['north', ['north']],
    [['north', 'south', 'north'], ['north', 'south']],
    [['north', 1, null], ['north']],
    [undefined, []],
    [null, []],
    [7, []],
    [{ 0: 'north' }, []],
  ])('are read from the claim %j', (claim, customers) => {
    expect([...read({ customer_id: claim }).customerIds]).toEqual(customers);
  });
});

it('the subject is read from the claims', () => {
  expect(read({}).subject).toBe('s');
});
