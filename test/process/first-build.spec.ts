import { appendFile, chmod, copyFile, mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { isEachCaseTried } from '../support/cases.js';
import { Workspace } from '../support/process.js';

const OTHERS = ['verify:store', 'compact', 'move:store', 'erase', 'keycloak:setup', 'auth0:setup'];

describe('a command in a fresh clone', () => {
  let workspace: Workspace;

  beforeAll(async () => {
    workspace = await Workspace.create();
    const bin = join(workspace.directory, 'node_modules/.bin');
    await mkdir(bin, { recursive: true });
    await copyFile('package.json', join(workspace.directory, 'package.json'));
    // A fake program `nest` that only prints its parameters, in place of the real build.
    await writeFile(join(bin, 'nest'), '#!/bin/sh\necho "nest $*"\n');
    await chmod(join(bin, 'nest'), 0o755);
  });
  afterAll(() => workspace.dispose());

  const scriptsOf = async (command: string): Promise<{ before: string | undefined; file: string }> => {
    const { scripts } = JSON.parse(await readFile('package.json', 'utf8')) as { scripts: Record<string, string> };
    const [, file = ''] = /^node (\S+)/.exec(scripts[command] ?? '') ?? [];
    return { before: scripts[`pre${command}`], file };
  };

  const run = async (command: string) => {
    const program = workspace.run('npm', ['run', '--silent', command], {});
    return { code: (await program.exited).code, stdout: program.stdout, stderr: program.stderr };
  };

  it('reports the build on standard error, and nothing when it is already built', async () => {
    const { file } = await scriptsOf('token');
    const first = await run('pretoken');
    expect(first).toMatchObject({ code: 0, stdout: '', stderr: expect.stringContaining('Building, which takes some seconds.\nnest build\n') as string });
    await mkdir(join(workspace.directory, file, '..'), { recursive: true });
    await writeFile(join(workspace.directory, file), "console.log('done')");
    expect(await run('token')).toMatchObject({ code: 0, stdout: 'done\n', stderr: expect.not.stringContaining('Building') as string });
  });

  it.each(OTHERS)('%s builds with the same script as token', async (command) => {
    const [token, other] = [await scriptsOf('token'), await scriptsOf(command)];
    expect(other.file).toMatch(/^dist\/commands\/[\w-]+\.js$/);
    expect(other.before).toBe(token.before?.replace(token.file, other.file));
  });
});

describe('the build of npm start and npm test', () => {
  let workspace: Workspace;
  const at = (path: string): string => join(workspace.directory, path);

  beforeAll(async () => {
    workspace = await Workspace.create();
    for (const name of ['build-if-changed.mjs', 'package.json', 'package-lock.json', 'nest-cli.json', 'tsconfig.json', 'tsconfig.build.json']) await copyFile(name, at(name));
    await mkdir(at('node_modules/.bin'), { recursive: true });
    await mkdir(at('src/common'), { recursive: true });
    await mkdir(at('dist'));
    // Fake programs in place of the compiler and the bundler. The first one fails if a source contains the word `error`.
    await writeFile(at('node_modules/.bin/nest'), '#!/bin/sh\necho "nest $*"\ncat src/*.ts src/*/*.ts > dist/.tsbuildinfo\n! grep -q error dist/.tsbuildinfo\n', { mode: 0o755 });
    await writeFile(at('bundle.mjs'), "import { cpSync } from 'node:fs';\ncpSync('dist/.tsbuildinfo', 'dist/bundle/.tsbuildinfo');\n");
    await writeFile(at('src/main.ts'), '1');
    await writeFile(at('src/common/text.ts'), '2');
  });
  afterAll(() => workspace.dispose());

  async function build(): Promise<{ code: number | null; isBuilt: boolean }> {
    const program = workspace.run(process.execPath, ['build-if-changed.mjs'], { PATH: process.env.PATH ?? '' });
    const { code } = await program.exited;
    expect(program.stderr).toBe('');
    return { code, isBuilt: program.stdout === 'nest build\n' };
  }

  it('is part of both', async () => {
    const { scripts } = JSON.parse(await readFile('package.json', 'utf8')) as { scripts: Record<string, string> };
    expect(scripts.start).toMatch(/^node build-if-changed\.mjs && exec /);
    for (const setup of ['build', 'build-meanwhile']) expect(await readFile(`test/support/${setup}.ts`, 'utf8')).toContain('build-if-changed.mjs');
  });

  it('is made once', async () => {
    expect([await build(), await build()]).toEqual([{ code: 0, isBuilt: true }, { code: 0, isBuilt: false }]);
  });

  const CHANGES: [string, () => Promise<unknown>][] = [
    ['a source has changed', () => writeFile(at('src/main.ts'), '3')],
    ['a source was renamed', () => rename(at('src/common/text.ts'), at('src/common/utf8.ts'))],
    ['a dependency has changed', () => writeFile(at('package-lock.json'), '{}')],
    ['the bundler has changed', () => appendFile(at('bundle.mjs'), '\n')],
    ['the bundle was removed', () => rm(at('dist/bundle'), { recursive: true })],
    ['a setting of the compiler has changed', () => writeFile(at('tsconfig.json'), '{}')],
    ['other sources were built meanwhile', () => writeFile(at('dist/.tsbuildinfo'), 'x')],
    ['dist was removed', async () => { await rm(at('dist'), { recursive: true }); await mkdir(at('dist')); }],
  ];
  it.each(isEachCaseTried ? CHANGES : CHANGES.slice(0, 2))('is made again when %s', async (_, change) => {
    await change();
    expect([await build(), await build()]).toEqual([{ code: 0, isBuilt: true }, { code: 0, isBuilt: false }]);
  });

  it('is not made again when only a test has changed', async () => {
    await writeFile(at('src/main.spec.ts'), '4');
    expect(await build()).toEqual({ code: 0, isBuilt: false });
  });

  it('is tried again after it has failed', async () => {
    await writeFile(at('src/main.ts'), 'error');
    expect([await build(), await build()]).toEqual([{ code: 1, isBuilt: true }, { code: 1, isBuilt: true }]);
  });
});
