import { describe, expect, it } from 'vitest';
import { type Claims, toAccessToken } from './claims.js';

const read = (claims: Claims, audience = 'api') => toAccessToken({ sub: 's', ...claims }, audience);
const parsed = (text: string) => JSON.parse(text) as Claims;

describe('permissions', () => {
  it.each<[string, Claims, string[]]>([
    ['of the claim', { permissions: ['read:users', 'read:roles', 'read:users'] }, ['read:users', 'read:roles']],
    ['of Keycloak', { resource_access: { api: { roles: ['read:users'] } } }, ['read:users']],
    ['of both', { permissions: ['a:b'], resource_access: { api: { roles: ['c:d'] } } }, ['a:b', 'c:d']],
    ['of another client', { resource_access: { account: { roles: ['read:users'] } } }, []],
    ['of the realm', { realm_access: { roles: ['read:users'] } }, []],
    ['of the scope', { scope: 'read:users' }, []],
    ['of none', {}, []],
    ['of a text', { permissions: 'read:users' }, []],
    ['of an object', { permissions: { 0: 'read:users', length: 1 } }, []],
    ['of other things', { permissions: [1, null, ['read:users'], { toString: 'x' }, 'a:b'] }, ['a:b']],
    ['of null', { permissions: null, resource_access: null }, []],
    ['of a client that is null', { resource_access: { api: null } }, []],
    ['of roles that are a text', { resource_access: { api: { roles: 'read:users' } } }, []],
    ['of a text for an object', { resource_access: 'api' }, []],
  ])('%s', (_, claims, permissions) => {
    expect([...read(claims).permissions]).toEqual(permissions);
  });

  it('come from own members alone, whatever the audience is called', () => {
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
  ])('%j', (claim, customers) => {
    expect([...read({ customer_id: claim }).customerIds]).toEqual(customers);
  });
});

it('keeps the subject', () => {
  expect(read({}).subject).toBe('s');
});
