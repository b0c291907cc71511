import { mkdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Variables, Workspace } from '../support/process.js';

const COMMANDS = ['serve', 'token', 'verify', 'compact', 'move', 'erase', 'keycloak-setup', 'auth0-setup'];

describe('load-data-service', () => {
  let workspace: Workspace;
  beforeAll(async () => {
    workspace = await Workspace.create();
  });
  afterAll(() => workspace.dispose());

  const run = (parameters: readonly string[], variables?: Variables) => workspace.main(parameters, variables);

  it('--help lists its commands, whatever the environment', async () => {
    const { code, stdout, stderr } = await run(['--help'], { PORT: 'x' });
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect([...stdout.matchAll(/^ {2}([a-z0-9-]+) {2,}\w/gm)].map(([, command]) => command)).toEqual(COMMANDS);
  });

  it('--version prints the version of the package, whatever the environment', async () => {
    const { version } = JSON.parse(await readFile('package.json', 'utf8')) as { version: string };
    expect(await run(['--version'], { PORT: 'x' })).toEqual({ code: 0, stdout: `${version}\n`, stderr: '' });
  });

  it.each([
    ['an unknown command', ['sever'], /^There is no command "sever" \(usage: load-data-service .*\)\n$/],
    ['a command that every object has', ['constructor'], /^There is no command "constructor" /],
  ])('refuses %s in one line', async (_, parameters, message) => {
    const { code, stdout, stderr } = await run(parameters);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toMatch(message);
  });

  it('passes the arguments behind the name to the command', async () => {
    await mkdir(join(workspace.data, 'identity'), { recursive: true });
    const { code, stdout, stderr } = await run(['token', '--customer', 'acme']);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    const claims = JSON.parse(Buffer.from(stdout.split('.')[1] ?? '', 'base64url').toString()) as object;
    expect(claims).toMatchObject({ customer_id: 'acme' });
  });
});
