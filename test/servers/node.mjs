// Other versions of Node, as npm's package `node` has them. They are installed outside the repository.
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

const PACKAGE = `node-${process.platform === 'win32' ? 'win' : process.platform}-${process.arch}`;
const CACHE = join(process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache'), 'load-data-service');

const run = promisify(execFile);

/**
 * Installs a version of Node unless it is there.
 *
 * @param {string} version
 * @returns {Promise<string>} the path of the program
 */
export async function installNode(version) {
  const home = join(CACHE, `node-${version}`);
  const program = join(home, 'node_modules', PACKAGE, 'bin', 'node');
  if (existsSync(program)) return program;
  await mkdir(CACHE, { recursive: true });
  const fresh = await mkdtemp(`${home}.`);
  try {
    await writeFile(join(fresh, 'package.json'), JSON.stringify({ private: true, dependencies: { [PACKAGE]: version } }));
    await run('npm', ['install', '--ignore-scripts', '--no-audit', '--no-fund'], { cwd: fresh });
    await rename(fresh, home);
  } catch (error) {
    // Another process may have been faster.
    if (!existsSync(program)) throw error;
  } finally {
    await rm(fresh, { recursive: true, force: true });
  }
  return program;
}
