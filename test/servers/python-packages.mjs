// Installs packages for Python outside the repository, for tests that run Python.
import { execFile, spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rename, rm } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

const CACHE = join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'load-data-service');
const run = promisify(execFile);

/** Packages that are installed together in a directory of their own. */
class PythonPackages {
  /** @param {readonly string[]} packages names with exact versions, as pip takes them */
  constructor(...packages) {
    this.packages = packages;
    /** The directory, which Python finds by PYTHONPATH. */
    this.path = join(CACHE, packages.join('-').replaceAll('==', '-'));
  }

  /** Whether they are available on this machine: they are installed, or Python has pip to install them. */
  get areAvailable() {
    return existsSync(this.path) || spawnSync('python3', ['-m', 'pip', '--version']).status === 0;
  }

  /** Installs them unless they are installed. */
  async install() {
    if (existsSync(this.path)) return;
    await mkdir(CACHE, { recursive: true });
    const fresh = await mkdtemp(`${this.path}.`);
    try {
      await run('python3', ['-m', 'pip', 'install', '--quiet', '--target', fresh, ...this.packages]);
      await rename(fresh, this.path);
    } catch (error) {
      await rm(fresh, { recursive: true, force: true });
      throw error;
    }
  }
}

export const POLARS = new PythonPackages('polars==2.1.0');
/** What the receiver in docs/telling-uploads.md needs. */
export const FLASK_RECEIVER = new PythonPackages('flask==3.1.3', 'standardwebhooks==1.1.0');
