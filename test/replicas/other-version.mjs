import { execFile } from 'node:child_process';
import { mkdir, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';

/**
 * The program of another version of the service. Installs it with npm if it is a packed one. Rejects with npm's output
 * if that fails.
 *
 * @param {string} other a tarball of `npm pack`, or the path of a build's `main.js`
 * @param {string} directory where to install
 * @returns {Promise<string>} the path of its `main.js`
 */
export async function programOf(other, directory) {
  if (!other.endsWith('.tgz')) return resolve(other);
  const home = join(directory, 'other-version');
  await mkdir(home);
  await writeFile(join(home, 'package.json'), '{"private":true}');
  await promisify(execFile)('npm', ['install', '--no-audit', '--no-fund', '--prefer-offline', resolve(other)], { cwd: home });
  return join(home, 'node_modules/load-data-service/dist/main.js');
}
