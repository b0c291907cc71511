// Installs versions of Node and other JavaScript runtimes from npm packages, outside the repository.
import { join } from 'node:path';
import { installPackage } from './npm-package.mjs';

const PLATFORM = `${process.platform === 'win32' ? 'win' : process.platform}-${process.arch}`;

/** The npm packages of the runtime Deno, by platform. */
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

/** JavaScript runtimes other than Node. `isAvailable`: whether npm has a package for this machine. */
export const RUNTIMES = [
  {
    name: 'Deno 2.9.6',
    isAvailable: PLATFORM in DENO,
    install: () => installPackage('deno-2.9.6', DENO[PLATFORM], '2.9.6', 'deno'),
    parameters: (folder) => ['run', '--no-prompt', '--node-modules-dir=manual', `--allow-read=${folder}`, '--allow-net=127.0.0.1'],
  },
  {
    name: 'Bun 1.4.4',
    isAvailable: PLATFORM in BUN,
    install: () => installPackage('bun-1.4.4', BUN[PLATFORM], '1.4.4', join('bin', 'bun')),
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
export const installNode = (version) => installPackage(`node-${version}`, `node-${PLATFORM}`, version, join('bin', 'node'));
