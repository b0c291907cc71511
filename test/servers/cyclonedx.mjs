// Checks a list of packages (SBOM) with CycloneDX's own library for Python, which has the schemas.
import { execFile, spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rename, rm } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

const VERSION = '11.12.0';
const CACHE = join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'load-data-service');
const HOME = join(CACHE, `cyclonedx-${VERSION}`);
const CHECK = `
import json, sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
text = open(sys.argv[1]).read()
version = SchemaVersion.from_version(json.loads(text)["specVersion"])
print(JsonStrictValidator(version).validate_str(text) or "valid")
`;
const run = promisify(execFile);

/** Whether the library is available on this machine: it is installed, or Python has pip to install it. */
export const isCycloneDxAvailable = () => existsSync(HOME) || spawnSync('python3', ['-m', 'pip', '--version']).status === 0;

/** Installs the library outside the repository unless it is installed. */
export async function installCycloneDx() {
  if (existsSync(HOME)) return;
  await mkdir(CACHE, { recursive: true });
  const fresh = await mkdtemp(`${HOME}.`);
  try {
    await run('python3', ['-m', 'pip', 'install', '--quiet', '--target', fresh, `cyclonedx-python-lib[json-validation]==${VERSION}`]);
    await rename(fresh, HOME);
  } catch (error) {
    await rm(fresh, { recursive: true, force: true });
    throw error;
  }
}

/**
 * Checks a file in CycloneDX's JSON form by the strict schema of its version.
 *
 * @param {string} file
 * @returns {Promise<string>} `valid`, or what is wrong.
 */
export async function checkCycloneDx(file) {
  const { stdout } = await run('python3', ['-c', CHECK, file], { env: { ...process.env, PYTHONPATH: HOME } });
  return stdout.trim();
}
