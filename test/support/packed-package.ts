import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { cp, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { ready, Workspace } from './process.js';

const execute = promisify(execFile);
const { PATH, HOME, NODE_EXTRA_CA_CERTS } = process.env;
const ENVIRONMENT = { PATH, HOME, NODE_EXTRA_CA_CERTS, NO_COLOR: '1' };

/** Runs a program until it ends. Rejects with the program's output if it fails. */
export async function run(cwd: string, program: string, ...parameters: string[]): Promise<string> {
  try {
    const { stdout } = await execute(program, parameters, { cwd, maxBuffer: 2 ** 26, env: ENVIRONMENT });
    return stdout;
  } catch (error) {
    const { stdout = '', stderr = '' } = error as { stdout?: string; stderr?: string };
    throw new Error(`${program} ${parameters.join(' ')}\n${stdout}\n${stderr}`, { cause: error });
  }
}

export interface PackageUser {
  readonly example: string;
  readonly nest: string;
  readonly more?: Readonly<Record<string, string>>;
  /** A test runner that is installed only for the contract suites, so that nothing else can depend on it. */
  readonly lateRunner?: string;
  readonly resolutions: readonly (readonly [module: string, resolution: string])[];
  readonly passed: RegExp;
}

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

interface Runner {
  readonly parameters: readonly string[];
  readonly passed: RegExp;
}

const RUNNERS: readonly Runner[] = [
  { parameters: ['../node_modules/vitest/vitest.mjs', 'run'], passed: /Tests +(\d+) passed \(\1\)/ },
  {
    parameters: ['../node_modules/jest/bin/jest.js', '--config', JSON.stringify({ rootDir: '.', testMatch: ['**/jest.spec.cjs'] })],
    passed: /^Tests: +(\d+) passed, \1 total$/m,
  },
  { parameters: ['--test', '--test-reporter=tap'], passed: /^# pass (\d+)\n# fail 0$/m },
];

const runSuites = (application: string, { parameters }: Runner, variables: Record<string, string> = {}) =>
  execute(process.execPath, [...parameters], { cwd: join(application, 'runners'), env: { ...ENVIRONMENT, ...variables }, maxBuffer: 2 ** 26 });

/** Expects that in each test runner a fake that breaks a promise fails, with a message that names the promise. */
export async function expectBrokenPromisesToFail(application: string): Promise<void> {
  for (const runner of RUNNERS) {
    const failure = (await runSuites(application, runner, { BROKEN: '1' }).catch((error: unknown) => error)) as { readonly stdout: string; readonly stderr: string };
    for (const port of ['FileStorage', 'IdentityProvider']) expect(failure.stdout + failure.stderr).toMatch(new RegExp(`${port} promises: ".+"\\s+\\w`));
  }
}

interface Manifest {
  dependencies: Record<string, string>;
  devDependencies: Record<string, string>;
}

/**
 * Packs the package, installs an example with it, and copies test/integration/package into the folder `check` of the
 * example.
 */
async function install(directory: string, { example, nest, more }: PackageUser): Promise<string> {
  // The package is packed without a build, because the test suite has just built it.
  await run(resolve('.'), 'npm', 'pack', '--ignore-scripts', '--pack-destination', directory);
  const [tarball = ''] = await readdir(directory);
  const app = join(directory, example);
  await cp(join('examples', example), app, { recursive: true });
  const manifest = JSON.parse(await readFile(join(app, 'package.json'), 'utf8')) as Manifest;
  manifest.dependencies['load-data-service'] = `file:${join(directory, tarball)}`;
  Object.assign(manifest.devDependencies, { '@nestjs/testing': nest }, more);
  await writeFile(join(app, 'package.json'), JSON.stringify(manifest));
  await cp('test/integration/package', join(app, 'check'), { recursive: true });
  await run(app, 'npm', 'install', '--no-audit', '--no-fund', '--prefer-offline');
  return app;
}

/**
 * Defines the tests that the packed package passes in every application. The tests depend on their order.
 *
 * @returns the folder of the application, once the tests have begun.
 */
export function packageTests(user: PackageUser): () => string {
  let directory: string;
  let path: string;
  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'load-data-package-'));
    path = await install(directory, user);
  }, 600_000);
  afterAll(() => rm(directory, { recursive: true, force: true }));

  it('brings no second Nest', async () => {
    const listed = await run(path, 'npm', 'ls', '--all', '--parseable', ...NEST_AND_METADATA);
    const copies = listed.trim().split('\n').filter((line) => line.includes('node_modules/')).map((line) => line.slice(line.lastIndexOf('node_modules/')));
    expect(copies.toSorted()).toEqual(NEST_AND_METADATA.map((name) => `node_modules/${name}`));
    expect(await readdir(join(path, 'node_modules/load-data-service/dist'))).not.toContain('bundle');
  });

  it.each(user.resolutions)('compiles with module %s and moduleResolution %s, all declarations checked, and runs', async (module, moduleResolution) => {
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
      // The command is run without npx, which takes longer to start than the command.
      expect(await run(path, join(path, 'node_modules/.bin/load-data-service'), command, '--help')).toMatch(new RegExp(`^load-data-service \\[?${command}.*\\n[^]*Examples?:\\n  .*npx load-data-service`));
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
    await run(path, 'npm', 'run', 'build');
    const { stdout, stderr } = await execute('npm', ['test'], { cwd: path, env: ENVIRONMENT });
    expect(stdout + stderr).toMatch(user.passed);
  }, 300_000);

  it('runs the suites in Vitest, Jest and node:test, all of their tests in each', async () => {
    await cp('test/integration/runners', join(path, 'runners'), { recursive: true });
    if (user.lateRunner !== undefined) await run(path, 'npm', 'install', '--no-save', '--no-audit', '--no-fund', '--prefer-offline', user.lateRunner);
    const counts: number[] = [];
    for (const runner of RUNNERS) {
      const { stdout, stderr } = await runSuites(path, runner);
      counts.push(Number(runner.passed.exec(stdout + stderr)?.[1]));
    }
    const [count = 0] = counts;
    expect(count).toBeGreaterThan(100);
    expect(counts).toEqual([count, count, count]);
  }, 300_000);

  return () => path;
}
