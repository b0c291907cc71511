// Linters and client generators for OpenAPI, and tools to drive a browser, in the versions that the tests use. They are
// installed outside the repository, together with a Node of their own, because some of them need a newer Node.
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { promisify } from 'node:util';
import { CACHE } from '../servers/cache.mjs';

const NODE = { name: `node-${process.platform === 'win32' ? 'win' : process.platform}-${process.arch}`, version: '24.9.0' };
const PACKAGES = {
  '@hey-api/openapi-ts': '0.99.0',
  '@redocly/cli': '2.77.0',
  '@stoplight/spectral-cli': '6.16.3',
  'axe-core': '4.14.1',
  'openapi-fetch': '0.17.0',
  'openapi-typescript': '7.13.0',
  orval: '8.38.0',
  'playwright-core': '1.65.1',
  typescript: '5.9.3',
};
const PYTHON_PACKAGE = 'openapi-python-client==0.29.1';
/** The directory of the tools. Raise the number when a version above changes, so that the tools are installed again. */
const HOME = join(CACHE, 'openapi-tools-2');
const PYTHON = join('python', process.platform === 'win32' ? 'Scripts' : 'bin');

const run = promisify(execFile);

/** Installs the tools unless they are installed. Needs npm, and Python with venv. */
export async function installOpenApiTools() {
  if (existsSync(HOME)) return;
  console.error('Installing OpenAPI linters and generators, which takes a minute.');
  await mkdir(CACHE, { recursive: true });
  const fresh = await mkdtemp(`${HOME}.`);
  try {
    const dependencies = { ...PACKAGES, [NODE.name]: NODE.version };
    await writeFile(join(fresh, 'package.json'), JSON.stringify({ private: true, dependencies }));
    // The packages' install scripts aren't run, because they download files or report the installation.
    await run('npm', ['install', '--ignore-scripts', '--no-audit', '--no-fund'], { cwd: fresh, env: { ...process.env, npm_config_engine_strict: 'false' } });
    await run('python3', ['-m', 'venv', join(fresh, 'python')]);
    await run(join(fresh, PYTHON, 'python'), ['-m', 'pip', 'install', '--quiet', PYTHON_PACKAGE]);
    await rename(fresh, HOME);
  } catch (error) {
    // Another process may have installed the tools in the meantime.
    if (!existsSync(HOME)) throw error;
  } finally {
    await rm(fresh, { recursive: true, force: true });
  }
}

export const toolPath = (...names) => join(HOME, 'node_modules', ...names);

/**
 * Runs a script of an installed Node tool, and returns all that it prints. Rejects when the script fails.
 *
 * @param {string} script the path of the script below `node_modules`
 * @param {readonly string[]} parameters
 * @param {string} [cwd]
 * @returns {Promise<string>}
 */
export const runNodeTool = (script, parameters, cwd) => runTool(toolPath(NODE.name, 'bin', 'node'), [toolPath(script), ...parameters], cwd);

/**
 * Runs Python with the installed Python tools, and returns all that it prints. Rejects when Python fails.
 *
 * @param {readonly string[]} parameters
 * @param {string} [cwd]
 * @returns {Promise<string>}
 */
export const runPython = (parameters, cwd) => runTool(join(HOME, PYTHON, 'python'), parameters, cwd);

async function runTool(command, parameters, cwd) {
  const path = [join(HOME, PYTHON), process.env.PATH].join(delimiter);
  const env = { ...process.env, PATH: path, NO_COLOR: '1', REDOCLY_TELEMETRY: 'off', REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true' };
  const { stdout, stderr } = await run(command, parameters, { cwd, env });
  return stdout + stderr;
}
