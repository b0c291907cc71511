import { execFile } from 'node:child_process';
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { ArgumentError } from '../../bench/support/command.mjs';

/**
 * Returns the program of a version of the service. Installs a packed version with npm first. Rejects with npm's output
 * if that fails.
 *
 * @param {string} version a tarball of `npm pack`, or the path of a build's `main.js`
 * @param {string} directory where to install
 * @returns {Promise<string>} the path of the version's `main.js`
 */
export async function programOf(version, directory) {
  if (!version.endsWith('.tgz')) return resolve(version);
  const home = join(directory, 'other-version');
  await mkdir(home);
  await writeFile(join(home, 'package.json'), '{"private":true}');
  await promisify(execFile)('npm', ['install', '--no-audit', '--no-fund', '--prefer-offline', resolve(version)], { cwd: home });
  return join(home, 'node_modules/load-data-service/dist/main.js');
}

/**
 * Like `programOf`, for the option `--other`. Rejects with an `ArgumentError` if the program's code is that of the
 * build in `dist`, because a comparison of both would find nothing.
 */
export async function otherProgramOf(other, directory) {
  const program = await programOf(other, directory);
  if (await isSameCode(dirname(program), resolve('dist'))) {
    throw new ArgumentError(`--other=${other} has the same code as the build in dist. docs/testing.md shows how to pack another version.`);
  }
  return program;
}

async function isSameCode(build, other) {
  const files = (await readdir(build, { recursive: true })).filter((file) => /\.[cm]?js$/.test(file));
  const isSame = async (file) => {
    const [here, there] = await Promise.all([build, other].map((directory) => readFile(join(directory, file)).catch(() => undefined)));
    return here !== undefined && there?.equals(here) === true;
  };
  for (const file of files) if (!(await isSame(file))) return false;
  return true;
}
