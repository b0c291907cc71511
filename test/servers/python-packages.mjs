// Installs packages for Python outside the repository, for tests that run Python.
import { execFile, spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { CACHE } from './cache.mjs';

const run = promisify(execFile);

export class PythonPackages {
  #packages;
  #subdirectory;

  /**
   * @param {readonly string[]} packages names with exact versions, as pip takes them
   * @param {object} [options]
   * @param {string} [options.name] the name of the directory; by default made of the packages
   * @param {string} [options.subdirectory] where in the directory the packages are; by default they are the directory
   */
  constructor(packages, { name = packages.join('-').replaceAll('==', '-'), subdirectory = '.' } = {}) {
    this.#packages = packages;
    this.#subdirectory = subdirectory;
    this.path = join(CACHE, name);
  }

  get areAvailable() {
    return existsSync(this.path) || spawnSync('python3', ['-m', 'pip', '--version']).status === 0;
  }

  /**
   * Installs the packages unless they are installed.
   *
   * @param {(directory: string) => Promise<void>} [complete] completes a new directory before it gets its final path
   */
  async install(complete = () => Promise.resolve()) {
    if (existsSync(this.path)) return;
    await mkdir(CACHE, { recursive: true });
    const fresh = await mkdtemp(`${this.path}.`);
    try {
      await run('python3', ['-m', 'pip', 'install', '--quiet', '--target', join(fresh, this.#subdirectory), ...this.#packages]);
      await complete(fresh);
      await rename(fresh, this.path);
    } catch (error) {
      // Another process may have installed the packages in the meantime.
      if (!existsSync(this.path)) throw error;
    } finally {
      await rm(fresh, { recursive: true, force: true });
    }
  }
}

export const POLARS = new PythonPackages(['polars==2.1.0']);
export const FLASK_RECEIVER = new PythonPackages(['flask==3.1.3', 'standardwebhooks==1.1.0']);
