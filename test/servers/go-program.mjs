import { execFile, spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { CACHE } from './cache.mjs';

/** A program that is installed outside the repository by `go install`. */
export class GoProgram {
  #title;
  #home;
  #source;
  #directory;

  /**
   * @param {string} name the name of the binary.
   * @param {string} version
   * @param {string | URL} source the path of the package to install, without the version, or the directory of a module
   *   in this repository, whose name is that of the binary.
   */
  constructor(name, version, source) {
    this.#title = `${name} ${version}`;
    this.#home = join(CACHE, `${name}-${version}`);
    [this.#source, this.#directory] = source instanceof URL ? ['.', source] : [`${source}@v${version}`, undefined];
    this.binary = join(this.#home, name);
  }

  get isAvailable() {
    return existsSync(this.binary) || spawnSync('go', ['version']).status === 0;
  }

  /**
   * Installs the program unless it is installed. Takes a minute or two, and needs the network. Rejects if Go is
   * missing, or with Go's output if the installation fails.
   */
  async install() {
    if (existsSync(this.binary)) return;
    if (!this.isAvailable) throw new Error(`${this.#title} is not installed, and there is no Go to install it with.`);
    console.error(`Installing ${this.#title}, which takes a minute or two.`);
    await mkdir(CACHE, { recursive: true });
    const fresh = await mkdtemp(`${this.#home}.`);
    try {
      const env = { ...process.env, GOBIN: fresh, CGO_ENABLED: '0' };
      await promisify(execFile)('go', ['install', this.#source], { env, cwd: this.#directory });
      await rename(fresh, this.#home);
    } catch (error) {
      // Another process may have installed the program in the meantime.
      if (!existsSync(this.binary)) throw error;
    } finally {
      await rm(fresh, { recursive: true, force: true });
    }
  }
}
