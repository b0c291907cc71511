// Installs npm packages outside the repository.
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { cp, mkdir, mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { CACHE } from './cache.mjs';

const run = promisify(execFile);

/**
 * Installs an npm package into a folder of the cache unless it is installed. npm chooses the versions of the packages
 * that it depends on. Returns the path of the package's program.
 *
 * @param {string} folder
 * @param {string} name
 * @param {string} version
 * @param {string} program the path of the program in the package
 */
export const installPackage = (folder, name, version, program) =>
  installInto(folder, join('node_modules', name, program), 'install', (fresh) => writeFile(join(fresh, 'package.json'), JSON.stringify({ private: true, dependencies: { [name]: version } })));

/**
 * Like `installPackage`, but with exactly the packages of a lock file.
 *
 * @param {string} folder
 * @param {string} manifests the directory of `package.json` and `package-lock.json`
 * @param {string} name
 * @param {string} program the path of the program in the package
 */
export const installLockedPackage = (folder, manifests, name, program) =>
  installInto(folder, join('node_modules', name, program), 'ci', (fresh) => cp(manifests, fresh, { recursive: true }));

async function installInto(folder, program, command, prepare) {
  const home = join(CACHE, folder);
  const path = join(home, program);
  if (existsSync(path)) return path;
  await mkdir(CACHE, { recursive: true });
  const fresh = await mkdtemp(`${home}.`);
  try {
    await prepare(fresh);
    await run('npm', [command, '--ignore-scripts', '--no-audit', '--no-fund'], { cwd: fresh });
    await rename(fresh, home);
  } catch (error) {
    // Another process may have installed the package in the meantime.
    if (!existsSync(path)) throw error;
  } finally {
    await rm(fresh, { recursive: true, force: true });
  }
  return path;
}
