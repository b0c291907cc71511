import { mkdir, readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Workspace } from '../support/process.js';

describe('DATA_DIR across restarts', () => {
  let workspace: Workspace;

  beforeEach(async () => {
    workspace = await Workspace.create();
  });
  afterEach(() => workspace.dispose());

  const mode = async (name: string): Promise<string> => ((await stat(join(workspace.data, name))).mode & 0o777).toString(8);

  const adminToken = async (origin: string, secret: string): Promise<string> => {
    const answer = await fetch(`${origin}/idp/token`, {
      method: 'POST',
      headers: { Authorization: `Basic ${Buffer.from(`admin:${secret}`).toString('base64')}` },
      body: new URLSearchParams({ grant_type: 'client_credentials' }),
    });
    return ((await answer.json()) as { access_token: string }).access_token;
  };

  const statusOf = async (origin: string, token: string): Promise<number> =>
    (await fetch(`${origin}/idpManagementBackend/users`, { headers: { Authorization: `Bearer ${token}` } })).status;

  it('is free immediately after a kill -9, the secret, the keys and their tokens stay valid, and only its owner can read identity/', async () => {
    // A fixed PUBLIC_URL: without it, the issuer of the tokens would change with the port at each start.
    const variables = { PUBLIC_URL: 'http://grid.example' };
    const first = await workspace.start(variables);
    const secret = (await readFile(join(workspace.data, 'identity/admin-secret'), 'utf8')).trim();
    const token = await adminToken(first.origin, secret);
    const keys = await (await fetch(`${first.origin}/idp/jwks`)).json();
    await first.program.end('SIGKILL');

    const second = await workspace.start(variables);
    expect(await (await fetch(`${second.origin}/idp/jwks`)).json()).toEqual(keys);
    expect(await statusOf(second.origin, token)).toBe(200);
    expect(await statusOf(second.origin, await adminToken(second.origin, secret))).toBe(200);
    expect(second.program.stderr).toBe('');

    await workspace.token([], variables);
    expect(await mode('identity')).toBe('700');
    const names = await readdir(join(workspace.data, 'identity'));
    expect(names.length).toBeGreaterThan(2);
    for (const name of names) expect([name, await mode(`identity/${name}`)]).toEqual([name, '600']);
  });

  it.each(['store-id', 'store-id.new'])('lets the service start when %s is a directory, and one warning names its new place', async (name) => {
    await mkdir(join(workspace.data, name, 'in'), { recursive: true });
    const { program } = await workspace.start();
    const warnings = program.lines.filter((line) => line.includes('"level":40')).map((line) => (JSON.parse(line) as { msg: string }).msg);
    expect(warnings).toEqual([expect.stringContaining(`${join(workspace.data, name)} is a directory`)]);
    expect(warnings[0]).toContain('may be removed');
    expect((await readFile(join(workspace.data, 'store-id'), 'utf8')).trim()).toHaveLength(36);
  });

  it('is used with the given secret instead of its own', async () => {
    const { origin } = await workspace.start({ EMBEDDED_ADMIN_SECRET: 'given-by-somebody' });
    expect(await statusOf(origin, await adminToken(origin, 'given-by-somebody'))).toBe(200);
  });
});
