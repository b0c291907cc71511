// Installs versions of Node and other JavaScript runtimes from npm packages, outside the repository.
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

const PLATFORM = `${process.platform === 'win32' ? 'win' : process.platform}-${process.arch}`;
const CACHE = join(process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache'), 'load-data-service');

const run = promisify(execFile);

/** The npm packages of Deno, by platform. Each contains the program for its platform. `BUN`: the same for Bun. */
const DENO = {
  'linux-x64': '@deno/linux-x64-glibc',
  'linux-arm64': '@deno/linux-arm64-glibc',
  'darwin-x64': '@deno/darwin-x64',
  'darwin-arm64': '@deno/darwin-arm64',
};
const BUN = {
  'linux-x64': '@oven/bun-linux-x64-baseline',
  'linux-arm64': '@oven/bun-linux-aarch64',
  'darwin-x64': '@oven/bun-darwin-x64-baseline',
  'darwin-arm64': '@oven/bun-darwin-aarch64',
};

/** Other runtimes. `isAvailable`: whether npm has a package for this machine. */
export const RUNTIMES = [
  {
    name: 'Deno 2.9.6',
    isAvailable: PLATFORM in DENO,
    install: () => install('deno-2.9.6', DENO[PLATFORM], '2.9.6', 'deno'),
    parameters: (folder) => ['run', '--no-prompt', '--node-modules-dir=manual', `--allow-read=${folder}`, '--allow-net=127.0.0.1'],
  },
  {
    name: 'Bun 1.4.4',
    isAvailable: PLATFORM in BUN,
    install: () => install('bun-1.4.4', BUN[PLATFORM], '1.4.4', join('bin', 'bun')),
    parameters: () => ['run'],
  },
];
export const MISSING_RUNTIMES = RUNTIMES.filter(({ isAvailable }) => !isAvailable).map(({ name }) => name);

/**
 * Installs a version of Node from npm unless it is installed.
 *
 * @param {string} version
 * @returns {Promise<string>} the path of the program `node`
 */
export const installNode = (version) => install(`node-${version}`, `node-${PLATFORM}`, version, join('bin', 'node'));

/**
 * Installs an npm package into a folder of the cache unless it is installed. Returns the path of the package's program.
 */
async function install(folder, name, version, program) {
  const home = join(CACHE, folder);
  const path = join(home, 'node_modules', name, program);
  if (existsSync(path)) return path;
  await mkdir(CACHE, { recursive: true });
  const fresh = await mkdtemp(`${home}.`);
  try {
    await writeFile(join(fresh, 'package.json'), JSON.stringify({ private: true, dependencies: { [name]: version } }));
    await run('npm', ['install', '--ignore-scripts', '--no-audit', '--no-fund'], { cwd: fresh });
    await rename(fresh, home);
  } catch (error) {
    // Another process may have installed the package in the meantime.
    if (!existsSync(path)) throw error;
  } finally {
    await rm(fresh, { recursive: true, force: true });
  }
  return path;
}
