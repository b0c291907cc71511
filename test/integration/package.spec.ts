import { execFile } from 'node:child_process';
import { cp, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

const execute = promisify(execFile);

/** Runs a program to its end. Rejects with its output if it fails. */
async function run(cwd: string, program: string, ...parameters: string[]): Promise<string> {
  try {
    const { stdout } = await execute(program, parameters, { cwd, maxBuffer: 2 ** 26, env: { PATH: process.env.PATH, HOME: process.env.HOME, NO_COLOR: '1' } });
    return stdout;
  } catch (error) {
    const { stdout = '', stderr = '' } = error as { stdout?: string; stderr?: string };
    throw new Error(`${program} ${parameters.join(' ')}\n${stdout}\n${stderr}`, { cause: error });
  }
}

interface App {
  readonly name: string;
  readonly type: 'module' | 'commonjs';
  readonly nest: string;
  /** Further packages that the application needs because of its Nest. */
  readonly more: Readonly<Record<string, string>>;
  readonly typescript: string;
  /** What `module` and `moduleResolution` may be for an application that imports an ES module. */
  readonly resolutions: readonly (readonly [module: string, resolution: string])[];
}

const APPS: readonly App[] = [
  {
    name: 'Nest 12, ES modules',
    type: 'module',
    nest: '^12.0.0',
    more: {},
    typescript: '^6.0.0',
    resolutions: [['node16', 'node16'], ['esnext', 'bundler'], ['nodenext', 'nodenext']],
  },
  {
    name: 'Nest 11, CommonJS',
    type: 'commonjs',
    nest: '^11.0.1',
    more: { '@nestjs/swagger': '^11.0.0', '@nestjs/terminus': '^11.0.0', 'class-validator': '^0.14.0' },
    typescript: '^5.7.3',
    resolutions: [['nodenext', 'node16'], ['nodenext', 'nodenext']],
  },
];

/** The settings that `nest new --strict` writes, but with the libraries' declarations checked too. */
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
  outDir: './dist',
  rootDir: './src',
  strict: true,
  skipLibCheck: false,
  forceConsistentCasingInFileNames: true,
  noFallthroughCasesInSwitch: true,
  types: ['node'],
};

/** Packages of which an application must have only one. */
const NEST_AND_METADATA = ['@nestjs/common', '@nestjs/core', '@nestjs/platform-express', 'class-validator', 'reflect-metadata', 'rxjs'];

let directory: string;
let tarball: string;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'load-data-package-'));
  // The suite has just built it.
  await run(resolve('.'), 'npm', 'pack', '--ignore-scripts', '--pack-destination', directory);
  const [name = ''] = await readdir(directory);
  tarball = join(directory, name);
}, 120_000);
afterAll(() => rm(directory, { recursive: true, force: true }));

/** Installs the package into a new application. */
async function install({ name, type, nest, more, typescript }: App): Promise<string> {
  const app = join(directory, name.replaceAll(/\W+/g, '-'));
  await mkdir(app);
  const manifest = {
    name: 'team',
    private: true,
    type,
    dependencies: {
      '@nestjs/common': nest,
      '@nestjs/core': nest,
      '@nestjs/platform-express': nest,
      'load-data-service': `file:${tarball}`,
      'reflect-metadata': '^0.2.2',
      rxjs: '^7.8.1',
      ...more,
    },
    devDependencies: { '@nestjs/testing': nest, '@types/express': '^5.0.0', '@types/node': '^22.0.0', typescript },
  };
  await writeFile(join(app, 'package.json'), JSON.stringify(manifest));
  await cp('test/integration/package', join(app, 'src'), { recursive: true });
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
    await writeFile(join(path, 'tsconfig.json'), JSON.stringify({ compilerOptions, include: ['src'] }));
    await rm(join(path, 'dist'), { recursive: true, force: true });
    await run(path, process.execPath, 'node_modules/typescript/bin/tsc');
    expect(await run(path, process.execPath, 'dist/main.js')).toContain('it works\n');
  }, 180_000);

  it('runs the commands', async () => {
    const help = await run(path, 'npx', 'load-data-service', '--help');
    for (const command of ['serve', 'token', 'verify', 'compact', 'keycloak-setup', 'auth0-setup']) {
      expect(help).toContain(`  ${command} `);
      expect(await run(path, 'npx', 'load-data-service', command, '--help')).toMatch(new RegExp(`^load-data-service \\[?${command}.*\\n[^]*Examples?:\\n  .*npx load-data-service`));
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
});
