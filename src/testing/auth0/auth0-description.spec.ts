import { expect, it, vi } from 'vitest';
import { Auth0Description, reportIfLeftOut } from '../../../test/support/auth0-description.js';
import type { Auth0Exchange } from './index.js';

const json = (schema: object) => ({ content: { 'application/json': { schema } } });
const ROLE = { type: 'object', properties: { id: { type: 'string' }, name: { type: 'string' } }, required: ['name'], additionalProperties: false };
const DESCRIPTION = new Auth0Description({
  components: { schemas: { Role: ROLE } },
  paths: {
    '/roles': {
      get: {
        parameters: [
          { name: 'page', in: 'query', required: true, schema: { type: 'integer' } },
          { name: 'include_totals', in: 'query', schema: { type: 'boolean' } },
        ],
        responses: { 200: json({ type: 'array', items: { $ref: '#/components/schemas/Role' } }), 429: {} },
      },
      post: { requestBody: json({ $ref: '#/components/schemas/Role' }), responses: { 200: json({ $ref: '#/components/schemas/Role' }) } },
    },
    '/roles/{id}': {
      delete: { parameters: [{ name: 'id', in: 'path', required: true, schema: { pattern: '^rol_' } }], responses: { 204: {} } },
    },
    '/resource-servers/{id}': { patch: { responses: { 201: json(ROLE) } } },
  },
});
const PATHS = { roles: '/api/v2/roles', role: '/api/v2/roles/rol_1', server: '/api/v2/resource-servers/a%2Fb' };

it.each<[string, string, Partial<Auth0Exchange>, readonly string[]]>([
  ['GET', PATHS.roles, { answer: { status: 200, body: [{ name: 'a' }] } }, []],
  ['GET', PATHS.roles, { query: new URLSearchParams('page=1&include_totals=true') }, []],
  ['GET', PATHS.roles, { query: new URLSearchParams() }, ['request']],
  ['GET', PATHS.roles, { query: new URLSearchParams('page=x') }, ['request']],
  ['GET', PATHS.roles, { query: new URLSearchParams('page=1&include_totals=1') }, ['request']],
  ['GET', PATHS.roles, { query: new URLSearchParams('page=1&type=tenant') }, ['request']],
  ['GET', PATHS.roles, { requestBody: {} }, ['request']],
  ['GET', PATHS.roles, { answer: { status: 200, body: [{ name: 1 }] } }, ['answer']],
  ['GET', PATHS.roles, { answer: { status: 429, body: 'whatever' } }, []],
  ['GET', PATHS.roles, { answer: { status: 503 } }, []],
  ['GET', PATHS.roles, { answer: { status: 409 } }, ['answer']],
  ['POST', PATHS.roles, { requestBody: { name: 'a' }, answer: { status: 200, body: { name: 'a' } } }, []],
  ['POST', PATHS.roles, { requestBody: { name: 'a', permissions: [] } }, ['request']],
  ['POST', PATHS.roles, {}, ['request']],
  ['POST', PATHS.roles, { requestBody: { name: 'a' }, answer: { status: 200, body: {} } }, ['answer']],
  ['POST', PATHS.roles, { requestBody: { name: 'a' }, answer: { status: 201, body: { name: 'a' } } }, ['answer']],
  ['DELETE', PATHS.role, { answer: { status: 204 } }, []],
  ['DELETE', '/api/v2/roles/1', { answer: { status: 204 } }, ['request']],
  ['DELETE', '/api/v2/roles/rol_%', {}, ['request']],
  ['PATCH', PATHS.server, { answer: { status: 200, body: { name: 'a' } } }, []],
  ['PATCH', PATHS.server, { answer: { status: 200, body: {} } }, ['answer']],
  ['GET', '/api/v2/clients', { query: new URLSearchParams('anything=1') }, []],
])('the check against a description, given %s %s %j, finds violations on these sides: %j', (method, path, members, sides) => {
  const query = new URLSearchParams(path === PATHS.roles && method === 'GET' ? 'page=0' : '');
  const violations = DESCRIPTION.violationsOf({ method, path, query, requestBody: undefined, ...members });
  expect([...new Set(violations.map(({ side }) => side))]).toEqual(sides);
});

it.each([
  ['is skipped with a message when there is no description', './no-description.json', [[expect.stringMatching(/^Left out: .*Auth0's description/)]]],
  ['prints nothing when there is a description', import.meta.url, []],
])('the check against a description %s', (_, file, said) => {
  const log = vi.spyOn(console, 'log').mockReturnValue();
  reportIfLeftOut(new URL(file, import.meta.url));
  const { calls } = log.mock;
  log.mockRestore();
  expect(calls).toEqual(said);
});
