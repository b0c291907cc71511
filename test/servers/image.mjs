// Builds the image of the Dockerfile with buildah, which needs no daemon. Images are kept outside the repository, apart
// from those of other programs, because the base image may be a stand-in.
import { execFile, spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { cp, mkdir, mkdtemp, readFile, realpath, rm, writeFile } from 'node:fs/promises';
import { homedir, tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { CACHE } from './cache.mjs';
import { installNode } from './runtimes.mjs';

const STORE = join(CACHE, 'images');
const PULLED_WITHIN_MS = 120_000;
const IMAGE = 'localhost/load-data-service';

const run = promisify(execFile);

/**
 * Runs buildah on the images of the tests, and returns its standard output. Rejects with all that it prints.
 *
 * @param {readonly string[]} parameters
 * @param {import('node:child_process').ExecFileOptions} [options]
 * @returns {Promise<string>}
 */
export async function buildah(parameters, options = {}) {
  const store = ['--root', STORE, '--runroot', join(tmpdir(), 'load-data-service-images')];
  const { stdout } = await run('buildah', [...store, ...parameters], { maxBuffer: 2 ** 26, ...options });
  return stdout.trim();
}

export function missingForImage() {
  if (process.platform !== 'linux' || process.getuid() !== 0) return 'this is not root on Linux';
  const missing = ['buildah', 'unshare', 'nsenter'].filter((program) => spawnSync(program, ['--version']).error !== undefined);
  if (missing.length > 0) return `${missing.join(' and ')} is missing`;
  if (spawnSync('unshare', ['--mount', '--pid', '--fork', 'mount', '-t', 'proc', 'proc', '/proc']).status !== 0) return 'nothing can be mounted';
  return undefined;
}

/**
 * Builds the image on the base that `prepareBase` made available. Rejects with the output of the build if it fails.
 *
 * @param {{ revision: string }} options the commit that the image names as its own
 * @returns {Promise<string>} the name of the image.
 */
export async function buildImage({ revision }) {
  // Containers that a killed run has left would keep images from being removed.
  await buildah(['rm', '--all']);
  const folder = await mkdtemp(join(tmpdir(), 'load-data-image-'));
  try {
    const volumes = [...(await npmSettings(folder)), '--volume', `${await npmCache()}:/root/.npm:rw`];
    await buildah(['bud', '--format', 'docker', '--isolation', 'chroot', '--pull-never', '--network', 'host', ...volumes, '--build-arg', `REVISION=${revision}`, '--tag', IMAGE, '.']);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
  // The image that had the name before is removed.
  await buildah(['rmi', '--prune']);
  return IMAGE;
}

async function npmSettings(folder) {
  const volumes = [[join(homedir(), '.npmrc'), '/root/.npmrc']];
  const certificates = process.env.NODE_EXTRA_CA_CERTS;
  if (certificates) {
    const settings = join(folder, 'npmrc');
    await writeFile(settings, 'cafile=/run/certificates.pem\n');
    volumes.push([certificates, '/run/certificates.pem'], [settings, '/usr/local/etc/npmrc']);
  }
  return volumes.filter(([file]) => existsSync(file)).flatMap(([file, path]) => ['--volume', `${file}:${path}:ro`]);
}

/**
 * Returns the folder of npm's cache on this machine, which the image's `npm ci` uses too. Creates the folder if it is
 * missing.
 */
async function npmCache() {
  const { stdout } = await run('npm', ['config', 'get', 'cache']);
  const folder = stdout.trim();
  await mkdir(folder, { recursive: true });
  return folder;
}

/**
 * Makes the base image available: pulls it, or else makes a stand-in.
 *
 * @returns {Promise<string>} the image's full name. Rejects if neither a registry nor Debian's packages can be reached.
 */
export async function prepareBase() {
  const [, name, major, release] = /^FROM (node:(\d+)-(\w+)-slim)\b/m.exec(await readFile('Dockerfile', 'utf8'));
  const base = `docker.io/library/${name}`;
  const isThere = () => buildah(['inspect', '--type', 'image', base]).then(() => true, () => false);
  if (await isThere()) return base;
  await buildah(['pull', '--quiet', base], { timeout: PULLED_WITHIN_MS }).catch((error) => {
    console.error(`${base} can't be pulled, so a stand-in is made: ${error.message.trim().split('\n').at(-1)}`);
    return makeStandIn(base, major, release);
  });
  return base;
}

/** The folder of npm's package. Its global folder depends on the Node that runs, which may have no npm. */
async function npmFolder() {
  const { stdout } = await run('sh', ['-c', 'command -v npm']);
  return dirname(dirname(await realpath(stdout.trim())));
}

async function makeStandIn(base, major, release) {
  const folder = await mkdtemp(join(tmpdir(), 'load-data-base-'));
  const container = await buildah(['from', 'scratch']);
  try {
    const node = await installNode(major);
    const system = join(folder, 'system.tar');
    await run('mmdebstrap', ['--quiet', '--variant=minbase', '--mode=root', release, system]);
    const local = join(folder, 'local');
    await mkdir(join(local, 'bin'), { recursive: true });
    await cp(node, join(local, 'bin/node'));
    await cp(await npmFolder(), join(local, 'lib/node_modules/npm'), { recursive: true, dereference: true });
    await buildah(['add', '--quiet', container, system, '/']);
    await buildah(['copy', '--quiet', container, local, '/usr/local']);
    const script = 'ln -s ../lib/node_modules/npm/bin/npm-cli.js /usr/local/bin/npm && useradd --uid 1000 --user-group --create-home node';
    await buildah(['run', '--isolation', 'chroot', container, '--', 'sh', '-c', script]);
    await buildah(['commit', '--quiet', '--format', 'docker', container, base]);
  } finally {
    await buildah(['rm', container]);
    await rm(folder, { recursive: true, force: true });
  }
}
