import { mkdir } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Variables, Workspace } from '../support/process.js';

describe('load-data-service', () => {
  let workspace: Workspace;
  beforeAll(async () => {
    workspace = await Workspace.create();
  });
  afterAll(() => workspace.dispose());

  const run = (parameters: readonly string[], variables?: Variables) => workspace.main(parameters, variables);

  it('has other names of --help and --version', async () => {
    const help = await run(['--help']);
    for (const name of ['-h', 'help']) expect(await run([name])).toEqual(help);
    expect(await run(['-v'])).toEqual(await run(['--version']));
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
  ])('%s --help describes the command, with an example, and the exit code %i of wrong usage', async (command, wrongUsage) => {
    const { code, stdout, stderr } = await run([command, '--help'], { PORT: 'x', LOG_LEVEL: 'loud' });
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).toMatch(new RegExp(`^load-data-service (\\[serve\\]\n|${command} [\\[-])`));
    expect(stdout).toMatch(new RegExp(`\nExamples:\n  npx load-data-service${command === 'serve' ? '' : ` ${command} `}`));
    expect(stdout).toMatch(/\nExit code: 0 [^\n]+\n$/);
    expect(stdout).toMatch(new RegExp(`\nExit code: .*\\b${wrongUsage} [^0-9]*wrong usage`));
    expect(await run([command, '--wrong'])).toMatchObject({ code: wrongUsage, stdout: '' });
  });

  it.each([
    ['an unknown option', ['--port', '80'], /^Unknown option '--port'.*\(usage: load-data-service \[serve\]\)\n$/],
    ['an argument too many', ['serve', 'x'], /^Unexpected argument 'x'.*\(usage: load-data-service \[serve\]\)\n$/],
  ])('refuses %s in one line', async (_, parameters, message) => {
    const { code, stdout, stderr } = await run(parameters);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toMatch(message);
  });

  it.each([
    ['token', 1, ['--user', 'u1', '--user', 'u2']],
    ['compact', 2, ['--date', '2026-01-01', '--date=2026-01-02']],
    ['compact', 2, ['--kind', 'nowcast', '--date', '2026-01-01', '--kind', 'historical']],
    ['move', 2, ['--to', 's3', '--to', 'azure']],
    ['erase', 2, ['--customer', 'c1', '--customer', 'c2']],
    ['erase', 2, ['--customer', 'c1', '--before', '2026-01-01T00:00:00Z', '--before', '2025-01-01T00:00:00Z']],
    ['keycloak-setup', 2, ['--administrator', 'ada@grid.example', '--administrator', 'bob@grid.example']],
    ['auth0-setup', 2, ['--administrator', 'ada@grid.example', '--administrator', 'bob@grid.example']],
  ])('%s refuses a repeated option in one line and exits with %i: %j', async (command, wrongUsage, parameters) => {
    const { code, stdout, stderr } = await run([command, ...parameters]);
    const repeated = parameters.map((text) => text.split('=')[0]).find((name, at, names) => names.indexOf(name) < at) ?? '';
    expect({ code, stdout, lines: stderr.split('\n').length }).toEqual({ code: wrongUsage, stdout: '', lines: 2 });
    expect(stderr).toContain(`${repeated} can be given only once (usage: load-data-service ${command} `);
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
});
