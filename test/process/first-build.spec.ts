import { chmod, copyFile, mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Workspace } from '../support/process.js';

const COMMANDS = ['token', 'verify:store', 'compact', 'keycloak:setup', 'auth0:setup'];

describe('a command in a fresh clone', () => {
  let workspace: Workspace;

  beforeAll(async () => {
    workspace = await Workspace.create();
    const bin = join(workspace.directory, 'node_modules/.bin');
    await mkdir(bin, { recursive: true });
    await copyFile('package.json', join(workspace.directory, 'package.json'));
    // Replaces the build.
    await writeFile(join(bin, 'nest'), '#!/bin/sh\necho "nest $*"\n');
    await chmod(join(bin, 'nest'), 0o755);
  });
  afterAll(() => workspace.dispose());

  const run = async (command: string) => {
    const program = workspace.run('npm', ['run', '--silent', command], {});
    return { code: (await program.exited).code, stdout: program.stdout, stderr: program.stderr };
  };

  it.each(COMMANDS)('%s reports the build on standard error, and nothing when it is already built', async (command) => {
    const { scripts } = JSON.parse(await readFile('package.json', 'utf8')) as { scripts: Record<string, string> };
    const [, file = ''] = /^node (\S+)/.exec(scripts[command] ?? '') ?? [];
    const first = await run(`pre${command}`);
    expect(first).toMatchObject({ code: 0, stdout: '', stderr: expect.stringContaining('Building, which takes some seconds.\nnest build\n') as string });
    await mkdir(join(workspace.directory, file, '..'), { recursive: true });
    await writeFile(join(workspace.directory, file), "console.log('done')");
    expect(await run(command)).toMatchObject({ code: 0, stdout: 'done\n', stderr: expect.not.stringContaining('Building') as string });
  });
});
