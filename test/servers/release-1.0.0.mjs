// Packs release 1.0.0 of the service from this repository's history, outside the repository.
import { execFile, spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { copyFile, mkdir, mkdtemp, rename, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { CACHE } from './cache.mjs';

const COMMIT = 'b504796cc402924dbc89d4414ecc404d00cb6d27';
const HOME = join(CACHE, 'release-1.0.0');
const NAME = 'load-data-service-1.0.0.tgz';
const REPOSITORY = resolve(import.meta.dirname, '../..');
const run = promisify(execFile);

export const RELEASE = join(HOME, NAME);

export const isReleaseAvailable = () => existsSync(RELEASE) || spawnSync('git', ['cat-file', '-e', `${COMMIT}^{commit}`], { cwd: REPOSITORY }).status === 0;

/** Packs the release unless it is packed. Takes a minute, and needs the npm registry. Rejects if git or npm fails. */
export async function packRelease() {
  if (existsSync(RELEASE)) return;
  console.error('Packing load-data-service 1.0.0, which takes a minute.');
  const sources = await mkdtemp(join(tmpdir(), 'release-'));
  try {
    const archive = join(sources, 'sources.tar');
    await run('git', ['archive', `--output=${archive}`, COMMIT], { cwd: REPOSITORY });
    await run('tar', ['-xf', archive], { cwd: sources });
    await run('npm', ['ci', '--no-audit', '--no-fund'], { cwd: sources });
    await run('npm', ['pack'], { cwd: sources });
    await mkdir(HOME, { recursive: true });
    // The tarball is copied and then renamed, so that it appears as a whole: the cache may be on another volume.
    const copy = `${RELEASE}.${process.pid}`;
    await copyFile(join(sources, NAME), copy);
    await rename(copy, RELEASE);
  } finally {
    await rm(sources, { recursive: true, force: true });
  }
}
