import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { PERMISSIONS } from '../../src/authentication/permissions.js';
import { type Auth0StandIn, startAuth0StandIn } from '../../src/testing/index.js';
import { auth0Variables } from '../support/auth0-tenant.js';
import { callManagementApi } from '../support/checked-auth0.js';
import { Workspace } from '../support/process.js';

describe('npm run auth0:check', { timeout: 300_000 }, () => {
  let tenant: Auth0StandIn;
  let workspace: Workspace;
  beforeEach(async () => {
    tenant = await startAuth0StandIn({ apiScopes: PERMISSIONS, settings: { searchDelayMs: 100, largestPage: 50, rateLimit: { burst: 50, perSecond: 2_000 } } });
    tenant.loadUsers(3);
    workspace = await Workspace.create();
    return async () => {
      await workspace.dispose();
      await tenant.stop();
    };
  });
  let before: unknown;
  const contents = async () => {
    tenant.indexUsers();
    return Promise.all(['users', 'roles', 'resource-servers'].map(async (what) => (await callManagementApi(tenant, `GET /${what}?include_totals=true`)).body));
  };
  beforeEach(async () => {
    before = await contents();
  });
  afterEach(async () => {
    tenant.recover();
    expect(await contents()).toEqual(before);
  });

  /**
   * Runs the check of a tenant (`auth0:check`) with the workspace as the working directory, where it writes its report.
   */
  async function check(variables: Record<string, string>, ...parameters: string[]) {
    const command = [resolve('node_modules/vitest/vitest.mjs'), 'run', '--root', resolve('.'), '--config', resolve('vitest.tenant.config.ts')];
    const program = workspace.run(process.execPath, [...command, ...parameters], { ...auth0Variables(tenant), ...variables });
    const { code } = await program.exited;
    return { code, output: program.stdout + program.stderr };
  }

  it('runs the contract on a test tenant, reports its behaviour, and removes everything that it created', async () => {
    const { code, output } = await check({ AUTH0_CHECK_DOMAIN: tenant.domain });
    expect({ code, output }).toMatchObject({ code: 0 });
    const report = await readFile(join(workspace.directory, 'data/auth0-check/report.md'), 'utf8');
    expect(output).toContain(report);
    for (const line of [
      'an unknown role is given: 404 The role does not exist.',
      'an unknown role is given beside one that is there: 404 The role does not exist., and the user has 0 roles',
      'a role is given again: 204',
      'a user who is not there is deleted: 204',
      'a page of roles holds: 50 of 100',
      'a page of users holds: 100 of 100',
      'ranges of created_at in a search are as fine as: a millisecond',
      'x-ratelimit-limit with 200: 50',
    ]) {
      expect(report.split('\n')).toContain(`- ${line}`);
    }
    expect(report).toMatch(/^- \d{2,} passed$/m);
    expect(report).toMatch(/^- a search sorts users by created_at, to: a millisecond \(\d+ users\)$/m);
    expect(report).not.toContain('Left behind');
    expect(report).not.toContain('failed');
  });

  it('reports failures, and removes everything that it or an interrupted run created', async () => {
    const [left] = tenant.loadUsers(1);
    await mkdir(join(workspace.directory, 'data/auth0-check'), { recursive: true });
    await writeFile(join(workspace.directory, 'data/auth0-check/made.txt'), `users ${left ?? ''}\n`);
    tenant.fail(/^GET .*\/permissions$/, { kind: 'answer', status: 200, body: [] }, { times: Infinity });
    const { code, output } = await check({ AUTH0_CHECK_DOMAIN: tenant.domain }, '--testNamePattern', 'gives the user their roles');
    expect({ code, output }).toMatchObject({ code: 1, output: expect.stringMatching(/^- failed: gives the user their roles, all of them and no others$/m) as string });
  });

  const ONE_TEST = 'gives the user their roles';
  const api = '/resource-servers/load-data-api';
  const fileOf = (name: string): string => join(workspace.directory, 'data/auth0-check', name);

  it('restores the permissions that an interrupted run changed', async () => {
    const { scopes } = (await callManagementApi(tenant, `GET ${api}`)).body as { scopes: unknown };
    await mkdir(join(workspace.directory, 'data/auth0-check'), { recursive: true });
    await writeFile(fileOf('scopes.json'), JSON.stringify({ api: `${tenant.domain}/api/v2${api}`, scopes }));
    await callManagementApi(tenant, `PATCH ${api}`, { scopes: [{ value: 'left:behind' }] });
    const { code, output } = await check({ AUTH0_CHECK_DOMAIN: tenant.domain }, '--testNamePattern', ONE_TEST);
    expect({ code, output }).toMatchObject({ code: 0 });
    await expect(readFile(fileOf('scopes.json'))).rejects.toThrow('ENOENT');
  });

  it('does not restore the permissions of one API to another', async () => {
    await mkdir(join(workspace.directory, 'data/auth0-check'), { recursive: true });
    await writeFile(fileOf('scopes.json'), JSON.stringify({ api: 'https://other.eu.auth0.com/api/v2/resource-servers/other', scopes: [] }));
    const { code, output } = await check({ AUTH0_CHECK_DOMAIN: tenant.domain }, '--testNamePattern', ONE_TEST);
    expect({ code, output }).toMatchObject({ code: 1, output: expect.stringContaining('has the scopes of https://other.eu.auth0.com/') as string });
  });

  it('reports what it could not remove or restore, and does so in the next run', async () => {
    const refused = { kind: 'answer', status: 409, body: { message: 'Not now' } } as const;
    tenant.fail(/^DELETE .*\/users\//, refused);
    tenant.fail(/^PATCH .*\/resource-servers\//, refused, { times: Infinity });
    // Runs only one test of the check. That test creates a user, and doesn't write the API's permissions.
    const { code, output } = await check({ AUTH0_CHECK_DOMAIN: tenant.domain }, '--testNamePattern', "a page of a user's roles holds");
    expect({ code, output }).toMatchObject({ code: 1, output: expect.stringMatching(/^- users auth0\|\w+: 409 Not now$/m) as string });
    expect(output).toContain("- the API's permissions are not what they were: 409 Not now\n");
    tenant.recover();
    expect(await check({ AUTH0_CHECK_DOMAIN: tenant.domain }, '--testNamePattern', ONE_TEST)).toMatchObject({ code: 0 });
  });

  const FOR_TESTS = 'AUTH0_CHECK_DOMAIN: must be the same as AUTH0_DOMAIN, which says that this tenant is for tests';

  it.each<[string, Record<string, string>, string[]]>([
    ['no tenant is declared a test tenant', {}, [FOR_TESTS]],
    ['another tenant is declared a test tenant', { AUTH0_CHECK_DOMAIN: 'tenant.eu.auth0.com' }, [`${FOR_TESTS}; it is "tenant.eu.auth0.com"`]],
    ['variables are missing', { AUTH0_DOMAIN: '', AUTH0_CLIENT_SECRET: '' }, [FOR_TESTS, 'AUTH0_DOMAIN: must be set', 'AUTH0_CLIENT_SECRET: must be set']],
  ])('reports the wrong variables and does not call Auth0 when %s', async (_, variables, lines) => {
    const asked = tenant.requests.length;
    const { code, output } = await check(variables);
    expect({ code, lines: output.trimEnd().split('\n') }).toEqual({ code: 2, lines });
    expect(tenant.requests.slice(asked).filter(({ path }) => !path.startsWith('/api/v2/users?'))).toEqual([]);
  });
});
