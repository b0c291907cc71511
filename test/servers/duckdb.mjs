// Installs DuckDB for Python, with its extensions for buckets. `node test/servers/duckdb.mjs` does this.
import { execFile, spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, rename, rm } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

const VERSION = '1.5.5';
const CACHE = join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'load-data-service');
const HOME = join(CACHE, `duckdb-${VERSION}`);
const run = promisify(execFile);

/** The environment variables with which Python finds the installed DuckDB, and DuckDB its extensions. */
export const DUCKDB_ENVIRONMENT = { HOME, PYTHONPATH: join(HOME, 'python') };

/** Whether DuckDB is available on this machine: it is installed, or Python has pip to install it. */
export const isDuckDbAvailable = () => existsSync(HOME) || spawnSync('python3', ['-m', 'pip', '--version']).status === 0;

/**
 * Installs DuckDB outside the repository unless it is installed. The extensions come from packages of PyPI, which
 * contain the same signed files as DuckDB's own server. That server isn't reachable from everywhere.
 */
export async function installDuckDb() {
  if (existsSync(HOME)) return;
  await mkdir(CACHE, { recursive: true });
  const fresh = await mkdtemp(`${HOME}.`);
  try {
    const packages = ['duckdb', 'duckdb-extension-httpfs', 'duckdb-extension-azure'].map((name) => `${name}==${VERSION}`);
    await run('python3', ['-m', 'pip', 'install', '--quiet', '--target', join(fresh, 'python'), ...packages]);
    await moveExtensions(fresh);
    await rename(fresh, HOME);
  } catch (error) {
    await rm(fresh, { recursive: true, force: true });
    throw error;
  }
}

/** Moves the extensions from their Python packages to the folder where DuckDB looks for extensions. */
async function moveExtensions(home) {
  const python = join(home, 'python');
  const ask = 'import duckdb; print(duckdb.sql("pragma platform").fetchone()[0])';
  const { stdout } = await run('python3', ['-c', ask], { env: { ...process.env, PYTHONPATH: python } });
  const target = join(home, '.duckdb/extensions', `v${VERSION}`, stdout.trim());
  await mkdir(target, { recursive: true });
  for (const name of await readdir(python)) {
    if (!name.startsWith('duckdb_extension_') || name.endsWith('.dist-info')) continue;
    const source = join(python, name, 'extensions', `v${VERSION}`);
    for (const file of await readdir(source)) await rename(join(source, file), join(target, file));
  }
}

if (process.argv[1] === import.meta.filename) await installDuckDb();
