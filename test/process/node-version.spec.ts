import { cp, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Workspace } from '../support/process.js';

describe('the version of Node', () => {
  let workspace: Workspace;
  beforeAll(async () => {
    workspace = await Workspace.create();
  });
  afterAll(() => workspace.dispose());

  async function start(version: string, main: string): Promise<{ code: number | null; stdout: string; stderr: string }> {
    // Runs main.ts in a process that reports `version` as its Node version in place of its own.
    const script = `Object.defineProperty(process.versions, 'node', { value: '${version}' }); await import('${pathToFileURL(main).href}');`;
    const program = workspace.run(process.execPath, ['--input-type=module', '--eval', script], { PORT: 'x' });
    const { code } = await program.exited;
    return { code, stdout: program.stdout, stderr: program.stderr };
  }

  it.each(['18.20.8', '20.18.3', '16.0.0'])('%s is refused in one line, before any other module is loaded', async (version) => {
    // An old Node can't load the other modules. Here they are missing, so loading one of them fails in any Node.
    const copy = join(workspace.directory, 'without-other-modules');
    for (const file of ['main.js', 'common/node-version.js']) await cp(join('dist', file), join(copy, file));
    await writeFile(join(copy, 'package.json'), '{"type":"module"}');
    const { code, stdout, stderr } = await start(version, join(copy, 'main.js'));
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
    expect(stderr).toMatch(new RegExp(`^load-data-service needs Node 20\\.19 or newer, and this is Node ${version}: install Node \\d+[^\\n]*\\n$`));
  });

  it.each(['20.19.0', '22.0.0'])('%s is accepted', async (version) => {
    expect((await start(version, resolve('dist/main.js'))).stderr).toMatch(/^PORT: must be/);
  });
});
