import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { cp, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ready, Workspace } from '../support/process.js';
import { startService } from '../support/service.js';

const execute = promisify(execFile);
const ENVIRONMENT = { PATH: process.env.PATH, HOME: process.env.HOME, NO_COLOR: '1' };

/** Runs a program until it ends. Rejects with the program's output if it fails. */
async function run(cwd: string, program: string, ...parameters: string[]): Promise<string> {
  try {
    const { stdout } = await execute(program, parameters, { cwd, maxBuffer: 2 ** 26, env: ENVIRONMENT });
    return stdout;
  } catch (error) {
    const { stdout = '', stderr = '' } = error as { stdout?: string; stderr?: string };
    throw new Error(`${program} ${parameters.join(' ')}\n${stdout}\n${stderr}`, { cause: error });
  }
}

interface App {
  readonly name: string;
  /** The folder in examples/ that the test installs as the application. */
  readonly example: string;
  readonly nest: string;
  /**
   * The pairs of TypeScript's `module` and `moduleResolution` with which an application that imports an ES module
   * compiles.
   */
  readonly resolutions: readonly (readonly [module: string, resolution: string])[];
}

const APPS: readonly App[] = [
  {
    name: 'Nest 12, ES modules',
    example: 'nest-12',
    nest: '^12.0.0',
    resolutions: [['node16', 'node16'], ['esnext', 'bundler'], ['nodenext', 'nodenext']],
  },
  {
    name: 'Nest 11, CommonJS',
    example: 'nest-11',
    nest: '^11.0.1',
    resolutions: [['nodenext', 'node16'], ['nodenext', 'nodenext']],
  },
];

/** The compiler options that `nest new --strict` writes, except that the declarations of libraries are checked too. */
const COMPILER_OPTIONS = {
  resolvePackageJsonExports: true,
  esModuleInterop: true,
  isolatedModules: true,
  declaration: true,
  removeComments: true,
  emitDecoratorMetadata: true,
  experimentalDecorators: true,
  allowSyntheticDefaultImports: true,
  target: 'ES2023',
  sourceMap: true,
  outDir: './check-dist',
  rootDir: './check',
  strict: true,
  skipLibCheck: false,
  forceConsistentCasingInFileNames: true,
  noFallthroughCasesInSwitch: true,
  types: ['node'],
};

/** Packages of which an application must have only one copy. */
const NEST_AND_METADATA = ['@nestjs/common', '@nestjs/core', '@nestjs/platform-express', 'class-validator', 'reflect-metadata', 'rxjs'];

let directory: string;
let tarball: string;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'load-data-package-'));
  // Packs without building, because the suite has just built the package.
  await run(resolve('.'), 'npm', 'pack', '--ignore-scripts', '--pack-destination', directory);
  const [name = ''] = await readdir(directory);
  tarball = join(directory, name);
}, 120_000);
afterAll(() => rm(directory, { recursive: true, force: true }));

interface Manifest {
  dependencies: Record<string, string>;
  devDependencies: Record<string, string>;
}

/**
 * Installs an example from examples/ with the packed package, and copies the application in test/integration/package
 * into the folder `check` of the example.
 */
async function install({ example, nest }: App): Promise<string> {
  const app = join(directory, example);
  await cp(join('examples', example), app, { recursive: true });
  const manifest = JSON.parse(await readFile(join(app, 'package.json'), 'utf8')) as Manifest;
  manifest.dependencies['load-data-service'] = `file:${tarball}`;
  manifest.devDependencies['@nestjs/testing'] = nest;
  await writeFile(join(app, 'package.json'), JSON.stringify(manifest));
  await cp('test/integration/package', join(app, 'check'), { recursive: true });
  await run(app, 'npm', 'install', '--no-audit', '--no-fund', '--prefer-offline');
  return app;
}

describe.each(APPS)('the packed package in a new application on $name', (app) => {
  let path: string;
  beforeAll(async () => {
    path = await install(app);
  }, 600_000);

  it('brings no second Nest', async () => {
    const listed = await run(path, 'npm', 'ls', '--all', '--parseable', ...NEST_AND_METADATA);
    const copies = listed.trim().split('\n').filter((line) => line.includes('node_modules/')).map((line) => line.slice(line.lastIndexOf('node_modules/')));
    expect(copies.toSorted()).toEqual(NEST_AND_METADATA.map((name) => `node_modules/${name}`));
  });

  it.each(app.resolutions)('compiles with module %s and moduleResolution %s, all declarations checked, and runs', async (module, moduleResolution) => {
    const compilerOptions = { ...COMPILER_OPTIONS, module, moduleResolution };
    await writeFile(join(path, 'tsconfig.check.json'), JSON.stringify({ compilerOptions, include: ['check'] }));
    await rm(join(path, 'check-dist'), { recursive: true, force: true });
    await run(path, process.execPath, 'node_modules/typescript/bin/tsc', '-p', 'tsconfig.check.json');
    expect(await run(path, process.execPath, 'check-dist/main.js')).toContain('it works\n');
  }, 180_000);

  it('runs the commands', async () => {
    const help = await run(path, 'npx', 'load-data-service', '--help');
    const commands = [...help.matchAll(/^ {2}([a-z0-9-]+) {2}/gm)].map(([, command = '']) => command);
    expect(commands).toEqual(['serve', 'token', 'verify', 'compact', 'move', 'erase', 'keycloak-setup', 'auth0-setup']);
    for (const command of commands) {
      expect(await run(path, 'npx', 'load-data-service', command, '--help')).toMatch(new RegExp(`^load-data-service \\[?${command}.*\\n[^]*Examples?:\\n  .*npx load-data-service`));
    }
  }, 120_000);

  it('serves, also its pages, and its ready line has a command that prints a token here', async () => {
    const workspace = await Workspace.create();
    try {
      const service = await ready(workspace.run(process.execPath, ['node_modules/load-data-service/dist/main.js'], {}, path));
      const [, command = ''] = /\| token: (npx [^(]+) \(/.exec(service.readyLine) ?? [];
      const [program = '', ...parameters] = command.split(' ');
      const token = workspace.run(program, parameters, { HOME: process.env.HOME ?? '' }, path);
      expect(await token.exited).toEqual({ code: 0, signal: null });
      const answer = await fetch(`${service.url}/idpManagementBackend/users`, { headers: { Authorization: `Bearer ${token.stdout.trim()}` } });
      expect([answer.status, await answer.json()]).toEqual([200, { users: [] }]);
      const page = await fetch(`${service.url}/docs/pages/docs/README.md`);
      expect([page.status, await page.text()]).toEqual([200, await readFile('docs/README.md', 'utf8')]);
    } finally {
      await workspace.dispose();
    }
  }, 120_000);

  it('has the sources that its source maps point to', async () => {
    const dist = join(path, 'node_modules/load-data-service/dist');
    const maps = (await readdir(dist, { recursive: true })).filter((name) => name.endsWith('.js.map'));
    expect(maps.length).toBeGreaterThan(100);
    for (const name of maps) {
      const { sources } = JSON.parse(await readFile(join(dist, name), 'utf8')) as { sources: string[] };
      for (const source of sources) expect(await readFile(join(dist, name, '..', source), 'utf8')).not.toBe('');
    }
  });

  it('has the files that its pages link to', async () => {
    const home = join(path, 'node_modules/load-data-service');
    const pages = (await readdir(home, { recursive: true })).filter((name) => name.endsWith('.md'));
    expect(pages).toEqual(expect.arrayContaining(['README.md', 'docs/README.md', 'examples/README.md']));
    for (const page of pages) {
      for (const [link, target = ''] of (await readFile(join(home, page), 'utf8')).matchAll(/\]\((?!http|#)([^)#]+)[^)]*\)/g)) {
        expect(existsSync(join(home, page, '..', target)), `${page}: ${link}`).toBe(true);
      }
    }
  });

  it('runs the example and its tests', async () => {
    // Copies the store's source file from the other example, as examples/README.md tells the reader to do.
    if (app.example === 'nest-11') await cp('examples/nest-12/src/folder-storage.ts', join(path, 'src/folder-storage.ts'));
    await run(path, 'npm', 'run', 'build');
    const { stdout, stderr } = await execute('npm', ['test'], { cwd: path, env: ENVIRONMENT });
    expect(stdout + stderr).toMatch(app.example === 'nest-11' ? /Tests: +48 passed, 48 total/ : /Tests +52 passed \(52\)/);
    if (app.example === 'nest-11') await run(path, 'npm', 'run', 'test:e2e');
  }, 300_000);

  it('runs the suites in Vitest, Jest and node:test, all of their tests in each, and in each a broken promise fails', async () => {
    const runners = join(path, 'runners');
    await cp('test/integration/runners', runners, { recursive: true });
    // Only now, so that what is tested above doesn't need them.
    await run(path, 'npm', 'install', '--no-save', '--no-audit', '--no-fund', '--prefer-offline', 'vitest@^4.1.0', 'jest@^30.0.0');
    const calls: readonly (readonly [passed: RegExp, ...parameters: string[]])[] = [
      [/Tests +(\d+) passed \(\1\)/, '../node_modules/vitest/vitest.mjs', 'run'],
      [/^Tests: +(\d+) passed, \1 total$/m, '../node_modules/jest/bin/jest.js', '--config', JSON.stringify({ rootDir: runners, testMatch: ['**/jest.spec.cjs'] })],
      [/^# pass (\d+)\n# fail 0$/m, '--test'],
    ];
    const counts: number[] = [];
    for (const [passed, ...parameters] of calls) {
      const { stdout, stderr } = await execute(process.execPath, parameters, { cwd: runners, env: ENVIRONMENT });
      counts.push(Number(passed.exec(stdout + stderr)?.[1]));
      const broken = execute(process.execPath, parameters, { cwd: runners, env: { ...ENVIRONMENT, BROKEN: '1' }, maxBuffer: 2 ** 26 });
      const failed = (await broken.then(() => undefined, (error: unknown) => error)) as { readonly stdout: string; readonly stderr: string } | undefined;
      for (const port of ['FileStorage', 'IdentityProvider']) expect(`${failed?.stdout ?? ''}${failed?.stderr ?? ''}`).toMatch(new RegExp(`${port} promises: ".+"\\s+\\w`));
    }
    const [count = 0] = counts;
    expect(count).toBeGreaterThan(100);
    expect(counts).toEqual([count, count, count]);
  }, 300_000);

  if (app.example === 'nest-12') {
    it('runs the suites in node:test, on the example of a bucket', async () => {
      await cp('examples/bucket', join(path, 'bucket'), { recursive: true });
      const tests = await run(join(path, 'bucket'), process.execPath, '--enable-source-maps', '--test');
      expect(tests).toMatch(/^# pass 196\n# fail 0$/m);
      // When an adapter breaks a promise, the failure names this promise, with a stack frame in the suite's source.
      const bucket = await readFile('examples/bucket/folder-bucket.js', 'utf8');
      await writeFile(join(path, 'bucket/folder-bucket.js'), bucket.replace('version !== undefined &&', 'false &&'));
      const failing = run(join(path, 'bucket'), process.execPath, '--enable-source-maps', '--test', '--test-name-pattern=leaves an object of another version unchanged');
      await expect(failing).rejects.toThrow(/Bucket promises: "the new version; undefined if nothing was written, because the object has another version or is missing\."\s+Let the store compare[^]*load-data-service\/src\/testing\/bucket\.contract\.ts:\d+/);
    }, 300_000);

    it('runs the scripts that upload a folder, in TypeScript and Python, twice', async () => {
      const scripts = join(path, 'upload-folder');
      await cp('examples/upload-folder', scripts, { recursive: true });
      await run(scripts, process.execPath, '../node_modules/typescript/bin/tsc');
      const service = await startService();
      try {
        for (const [customer, program, script] of [['a', process.execPath, 'dist/upload-folder.js'], ['b', 'python3', 'upload_folder.py']] as const) {
          const upload = () => run(scripts, program, script, service.url, customer, 'Landis+Gyr', resolve('docs/examples'));
          const first = await upload();
          const lines = (await service.lines()).filter((line) => line.customer_id === customer);
          expect(lines.map((line) => line.filename).sort()).toEqual((await readdir('docs/examples')).sort());
          for (const line of lines) expect(first).toContain(`${String(line.filename)}: ${String(line.upload_id)}\n`);
          expect(await upload()).toBe(first.replaceAll('\n', ' (stored before)\n'));
        }
        expect(await service.lines()).toHaveLength(6);
      } finally {
        await service.close();
      }
    }, 120_000);
  }
});
