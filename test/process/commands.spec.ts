import { mkdir, readFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Variables, Workspace } from '../support/process.js';

const COMMANDS = ['serve', 'token', 'verify', 'compact', 'move', 'erase', 'keycloak-setup', 'auth0-setup'];

describe('load-data-service', () => {
  let workspace: Workspace;
  beforeAll(async () => {
    workspace = await Workspace.create();
  });
  afterAll(() => workspace.dispose());

  async function run(parameters: readonly string[], variables: Variables = {}) {
    const program = workspace.run(process.execPath, [resolve('dist/main.js'), ...parameters], variables);
    const { code } = await program.exited;
    return { code, stdout: program.stdout, stderr: program.stderr };
  }

  it('--help lists its commands, whatever the environment', async () => {
    const { code, stdout, stderr } = await run(['--help'], { PORT: 'x' });
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect([...stdout.matchAll(/^ {2}([a-z0-9-]+) {2,}\w/gm)].map(([, command]) => command)).toEqual(COMMANDS);
    for (const name of ['-h', 'help']) expect(await run([name])).toMatchObject({ code: 0, stdout });
  });

  it.each(['--version', '-v'])('%s prints the version of the package, whatever the environment', async (option) => {
    const { version } = JSON.parse(await readFile('package.json', 'utf8')) as { version: string };
    expect(await run([option], { PORT: 'x' })).toEqual({ code: 0, stdout: `${version}\n`, stderr: '' });
  });

  it.each(COMMANDS)('%s --help describes the command, with an example', async (command) => {
    const { code, stdout, stderr } = await run([command, '--help'], { PORT: 'x', LOG_LEVEL: 'loud' });
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).toMatch(new RegExp(`^load-data-service (\\[serve\\]\n|${command} [\\[-])`));
    expect(stdout).toMatch(new RegExp(`\nExamples:\n  npx load-data-service${command === 'serve' ? '' : ` ${command} `}`));
    expect(stdout).toMatch(/\nExit code: 0 [^\n]+\n$/);
  });

  it.each([
    ['serve', 2],
    ['token', 1],
    ['verify', 2],
    ['compact', 2],
    ['move', 2],
    ['erase', 2],
    ['keycloak-setup', 2],
    ['auth0-setup', 2],
  ])('%s exits with %i after wrong usage, as its --help says', async (command, code) => {
    expect(await run([command, '--wrong'])).toMatchObject({ code, stdout: '' });
    expect((await run([command, '--help'])).stdout).toMatch(new RegExp(`\nExit code: .*\\b${code} [^0-9]*wrong usage`));
  });

  it.each([
    ['an unknown command', ['sever'], /^There is no command "sever" \(usage: load-data-service .*\)\n$/],
    ['a command that every object has', ['constructor'], /^There is no command "constructor" /],
    ['an unknown option', ['--port', '80'], /^Unknown option '--port'.*\(usage: load-data-service \[serve\]\)\n$/],
    ['an argument too many', ['serve', 'x'], /^Unexpected argument 'x'.*\(usage: load-data-service \[serve\]\)\n$/],
  ])('refuses %s in one line', async (_, parameters, message) => {
    const { code, stdout, stderr } = await run(parameters);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toMatch(message);
  });

  it.each<[string, 'stdout' | 'stderr', number]>([
    ['help', 'stdout', 0],
    ['--version', 'stdout', 0],
    ['token', 'stdout', 0],
    ['token', 'stderr', 0],
    ['verify', 'stdout', 2],
    ['compact --wrong', 'stderr', 2],
    ['sever', 'stderr', 2],
  ])('%s, whose %s has no reader, prints no stack and exits with %i', async (command, stream, code) => {
    for (const name of ['identity', 'uploads', 'files']) await mkdir(join(workspace.data, name), { recursive: true });
    const program = workspace.run(process.execPath, [resolve('dist/main.js'), ...command.split(' ')], {});
    program.child[stream]?.destroy();
    expect({ ...(await program.exited), stderr: program.stderr }).toEqual({ code, signal: null, stderr: '' });
  });

  it('passes the arguments behind the name to the command', async () => {
    await mkdir(join(workspace.data, 'identity'), { recursive: true });
    const { code, stdout, stderr } = await run(['token', '--customer', 'acme']);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    const claims = JSON.parse(Buffer.from(stdout.split('.')[1] ?? '', 'base64url').toString()) as object;
    expect(claims).toMatchObject({ customer_id: 'acme' });
  });
});
