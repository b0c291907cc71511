// Installs DuckDB for Python, with its extensions for buckets. `node test/servers/duckdb.mjs` does this.
import { execFile } from 'node:child_process';
import { mkdir, readdir, rename } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { PythonPackages } from './python-packages.mjs';

const VERSION = '1.5.5';
const PACKAGES = new PythonPackages(
  ['duckdb', 'duckdb-extension-httpfs', 'duckdb-extension-azure'].map((name) => `${name}==${VERSION}`),
  { name: `duckdb-${VERSION}`, subdirectory: 'python' },
);
const run = promisify(execFile);

/** The environment variables with which Python finds the installed DuckDB, and DuckDB its extensions. */
export const DUCKDB_ENVIRONMENT = { HOME: PACKAGES.path, PYTHONPATH: join(PACKAGES.path, 'python') };

export const isDuckDbAvailable = () => PACKAGES.areAvailable;

/**
 * Installs DuckDB and its extensions. They come from packages of PyPI, which contain the same signed files as DuckDB's
 * own server: that isn't reachable from everywhere.
 */
export const installDuckDb = () => PACKAGES.install(moveExtensions);

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
