import { appendFile, cp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { built } from '../support/built.js';
import { Workspace, type Variables } from '../support/process.js';
import { startService } from '../support/service.js';

await built();

describe('the bundle', () => {
  let workspace: Workspace;
  const at = (path: string): string => join(workspace.directory, path);

  beforeEach(async () => {
    workspace = await Workspace.create();
  });
  afterEach(() => workspace.dispose());

  it('serves the same OpenAPI document as the compiled modules', async () => {
    const [compiled, bundled] = [await startService(), await workspace.start()];
    const documentOf = async (url: string): Promise<unknown> => JSON.parse((await (await fetch(`${url}/docs-json`)).text()).replaceAll(url, 'https://load.example'));
    const [expected, document] = [await documentOf(compiled.url), await documentOf(bundled.url)];
    await compiled.close();
    expect(document).toEqual(expected);
  });

  it('maps its code to the sources', async () => {
    const maps = (await readdir('dist/bundle')).filter((name) => name.endsWith('.map'));
    const sources = new Set<string>();
    for (const name of maps) {
      const path = resolve('dist/bundle', name);
      for (const source of (JSON.parse(await readFile(path, 'utf8')) as { sources: string[] }).sources) sources.add(fileURLToPath(new URL(source, pathToFileURL(path))));
    }
    expect(sources).toContain(resolve('src/commands/dispatch.ts'));
    for (const source of sources) expect(await readFile(source, 'utf8')).not.toBe('');
  });

  describe('of a build whose compiled modules only print "compiled"', () => {
    beforeEach(async () => {
      await cp('dist', at('dist'), { recursive: true, filter: (path) => !path.startsWith(join('dist', 'testing')) });
      for (const name of ['package.json', 'package-lock.json']) await cp(name, at(name));
      await symlink(resolve('node_modules'), at('node_modules'));
      await writeFile(at('dist/commands/dispatch.js'), "export const dispatch = () => console.log('compiled');\n");
    });

    const printed = async (variables: Variables = {}): Promise<string> => {
      const program = workspace.run(process.execPath, [at('dist/main.js'), '--version'], variables);
      expect(await program.exited).toMatchObject({ code: 0 });
      return program.stdout;
    };

    it('runs in their place', async () => {
      expect(await printed()).toMatch(/^\d+\.\d+\.\d+\n$/);
    });

    it.each<[string, () => Promise<unknown>, Variables?]>([
      ['other modules were compiled after it', () => appendFile(at('dist/.tsbuildinfo'), '\n')],
      ['other packages were installed after it', () => appendFile(at('package-lock.json'), '\n')],
      ['there is none, as in a package', () => rm(at('dist/bundle'), { recursive: true })],
      ["a variable names a team's storage", () => Promise.resolve(), { FILE_STORAGE: 'module:./team-store.js' }],
      ["a variable names a team's provider", () => Promise.resolve(), { IDENTITY_PROVIDER: 'module:team-provider' }],
      ["a line of .env names a team's storage", () => writeFile(at('.env'), 'FILE_STORAGE=module:./team-store.js\n')],
    ])('leaves the work to them if %s', async (_, change, variables) => {
      await change();
      expect(await printed(variables)).toBe('compiled\n');
    });

    it('runs if .env is unreadable, and leaves the message to the command', async () => {
      await writeFile(at('.env'), 'no assignment\n');
      expect(await printed()).toMatch(/^\d+\.\d+\.\d+\n$/);
    });
  });
});
