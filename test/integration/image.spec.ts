import type { Dirent } from 'node:fs';
import { chown, mkdtemp, readdir, readFile, rm, stat } from 'node:fs/promises';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type Azurite, startAzurite } from '../servers/azurite.mjs';
import { checkCycloneDx, isCycloneDxAvailable } from '../servers/cyclonedx.mjs';
import { buildah, buildImage, missingForImage, prepareBase } from '../servers/image.mjs';
import { isVersitygwAvailable, startVersitygw, type Versitygw } from '../servers/versitygw.mjs';
import { type Program, ready, type Variables, Workspace } from '../support/process.js';

const HIGHEST_SIZE_MB = 110;
const REVISION = '0123456789abcdef';
const TAR_BLOCK_BYTES = 512;
const BUILT_WITHIN_MS = 600_000;
const STARTED_WITHIN_MS = 120_000;
const UPLOAD = '/ingestHistoricalLoadData/upload_historical?customer_id=c&filename=load.csv&manufacturer=m';
/** What `verify` finds after one upload of a file. */
const SOUND = { uploads: 1, files: 1, defects: 0, unknown: 0 };
/** The parameters of `unshare` for a container, whose first process is the command. */
const NAMESPACES = ['--mount', '--propagation', 'private', '--pid', '--fork'];
/**
 * Runs a command in a root file system, as a container runtime does with `--read-only`, with a volume that is mounted
 * `rw` or `ro`. There is no writable `/tmp`, and no shell or other program of Debian.
 */
const CONTAINER = `
root=$0 volume=$1 mode=$2; shift 2
mount --rbind "$root" "$root"
mount --rbind /dev "$root/dev"
mount -t proc proc "$root/proc"
mount --bind "$volume" "$root/data"
mount -o "remount,bind,$mode" "$root/data"
mount -t tmpfs -o size=4k tmpfs "$root/usr/bin"
mount -o remount,bind,ro "$root"
exec env -i "$@"`;

interface Configuration {
  readonly User: string;
  readonly Env: readonly string[];
  readonly Entrypoint: readonly string[] | null;
  readonly Cmd: readonly string[];
  readonly WorkingDir: string;
  readonly Labels: Readonly<Record<string, string>>;
  readonly Healthcheck: { readonly Test: readonly string[] };
}

interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly description: string;
  readonly dependencies: Record<string, string>;
  readonly devDependencies?: Record<string, string>;
  readonly peerDependencies: Record<string, string>;
  readonly peerDependenciesMeta: Record<string, { optional?: boolean }>;
}

interface Sbom {
  readonly metadata: { readonly component: { readonly name: string; readonly version: string } };
  readonly components: readonly { readonly name: string; readonly version: string }[];
}

const readJson = async (file: string): Promise<unknown> => JSON.parse(await readFile(file, 'utf8'));

/** The size of an image as buildah prints it, in MB. */
async function sizeOf(image: string): Promise<number> {
  const [, size = '', unit = ''] = /^([\d.]+) (\w+)$/.exec(await buildah(['images', '--format', '{{.Size}}', image])) ?? [];
  return Number(size) * ({ MB: 1, GB: 1_000 }[unit] ?? NaN);
}

const sum = (sizes: readonly number[]): number => sizes.reduce((total, size) => total + size, 0);

/**
 * The bytes that everything below these directories takes in a layer, which is a tar file: a block of 512 bytes for each
 * entry, and as many as its contents need.
 */
async function layerBytes(...directories: readonly string[]): Promise<number> {
  const entries = await Promise.all(directories.map((directory) => readdir(directory, { recursive: true, withFileTypes: true })));
  const contents = async (entry: Dirent) => (entry.isFile() ? (await stat(join(entry.parentPath, entry.name))).size : 0);
  return sum(await Promise.all(entries.flat().map(async (entry) => TAR_BLOCK_BYTES * (1 + Math.ceil((await contents(entry)) / TAR_BLOCK_BYTES)))));
}

async function freePort(): Promise<string> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return String(port);
}

let base = '';
let missing = missingForImage();
if (missing === undefined) {
  await prepareBase().then(
    (name) => (base = name),
    (error: unknown) => (missing = `its base can't be made: ${String(error)}`),
  );
}
if (missing !== undefined) console.warn(`Left out: the tests of the image, for ${missing}.`);

describe.runIf(missing === undefined)('the image', { timeout: STARTED_WITHIN_MS }, () => {
  let image: string;
  let configuration: Configuration;
  let container: string | undefined;
  /** The root file system of the image. */
  let root: string;
  let workspace: Workspace;
  let volume: string;
  const programs: Program[] = [];

  beforeAll(async () => {
    image = await buildImage({ revision: REVISION });
    ({ Docker: { config: configuration } } = JSON.parse(await buildah(['inspect', '--type', 'image', image])) as { Docker: { config: Configuration } });
    container = await buildah(['from', '--pull-never', image]);
    root = await buildah(['mount', container]);
  }, BUILT_WITHIN_MS);
  afterAll(async () => {
    if (container !== undefined) await buildah(['rm', container]);
  });

  beforeEach(async () => {
    workspace = await Workspace.create();
    volume = await mkdtemp(join(tmpdir(), 'load-data-volume-'));
    await chown(volume, 1000, 1000);
  });
  afterEach(async () => {
    // A container doesn't end with `unshare`.
    for (const program of programs.splice(0)) if (program.child.exitCode === null) await stop(program, 'SIGKILL');
    await workspace.dispose();
    await rm(volume, { recursive: true });
  });

  /** Runs a command in a container of the image, with the image's variables and these. Default: the image's command. */
  function run(variables: Variables = {}, command: readonly string[] = [...(configuration.Entrypoint ?? []), ...configuration.Cmd], volumeMode: 'rw' | 'ro' = 'rw'): Program {
    const environment = [...configuration.Env, ...Object.entries(variables).map(([name, value]) => `${name}=${value}`)];
    const [user = '', group = ''] = configuration.User.split(':');
    const enter = ['nsenter', `--root=${root}`, `--wd=${root}${configuration.WorkingDir}`, '--setuid', user, '--setgid', group, '--'];
    const program = workspace.run('unshare', [...NAMESPACES, 'sh', '-ec', CONTAINER, root, volume, volumeMode, ...environment, ...enter, ...command], {});
    programs.push(program);
    return program;
  }

  /** Sends a signal to the first process of the container, and waits until the container has ended. */
  async function stop({ child, exited }: Program, signal: NodeJS.Signals = 'SIGTERM') {
    const children = await readFile(`/proc/${child.pid}/task/${child.pid}/children`, 'utf8');
    process.kill(Number(children), signal);
    return exited;
  }

  const upload = async (url: string) => (await fetch(`${url}${UPLOAD}`, { method: 'POST', body: 'bytes', headers: { 'Content-Type': 'text/csv' } })).status;

  /** The output of a command that succeeds, in a container with the same volume. */
  const output = (variables: Variables, ...command: string[]): Promise<string> => outputOf(run(variables, ['node', ...command]), command);

  async function outputOf(program: Program, command: readonly string[]): Promise<string> {
    expect([command, await program.exited, program.stderr]).toEqual([command, { code: 0, signal: null }, '']);
    return program.stdout;
  }

  const healthcheck = async (variables: Variables, ...parameters: string[]) => {
    const program = run(variables, [...configuration.Healthcheck.Test.slice(1), ...parameters]);
    const { code } = await program.exited;
    return `${code} ${program.stderr}`;
  };

  it(`has at most ${HIGHEST_SIZE_MB} MB above its base`, async () => {
    const above = (await sizeOf(image)) - (await sizeOf(base));
    console.log(`The image has ${above} MB above its base.`);
    expect(above).toBeGreaterThan(0);
    expect(above).toBeLessThanOrEqual(HIGHEST_SIZE_MB);
  });

  it('has the sizes that docs/deploying.md says, give or take 1 MB', async () => {
    const page = await readFile('docs/deploying.md', 'utf8');
    const [, documented] = /The image has (\d+) MB above its base/.exec(page) ?? [];
    const rows = [...page.matchAll(/^\| (\d+) \| (.*?) \|/gm)];
    const app = join(root, configuration.WorkingDir);
    const packages = await layerBytes(join(app, 'node_modules'));
    // The last two rows are all other packages, and the service.
    const named = rows.slice(0, -2).map(([, , names = '']) => [...names.matchAll(/`([^`]+)`/g)].map(([, name = '']) => join(app, 'node_modules', name)));
    const listed = await Promise.all(named.map((directories) => layerBytes(...directories)));
    const parts = [...listed, packages - sum(listed), (await layerBytes(app)) - packages].map((bytes) => Math.round(bytes / 1e6));
    const measured = [(await sizeOf(image)) - (await sizeOf(base)), ...parts];
    console.log(`The sizes of docs/deploying.md: ${measured.join(', ')} MB`);
    expect(measured).toHaveLength(1 + rows.length);
    const wrong = [documented, ...rows.map(([, size]) => size)].filter((size, index) => !(Math.abs(Number(size) - (measured[index] ?? NaN)) <= 1));
    expect(wrong).toEqual([]);
  });

  it('says what it is, runs as a numbered user who is not root, and starts without a shell', async () => {
    const { version, description } = (await readJson('package.json')) as Manifest;
    expect(configuration).toMatchObject({
      User: '1000:1000',
      Labels: {
        'org.opencontainers.image.title': 'load-data-service',
        'org.opencontainers.image.description': description,
        'org.opencontainers.image.version': version,
        'org.opencontainers.image.revision': REVISION,
        'org.opencontainers.image.licenses': 'Apache-2.0',
        'org.opencontainers.image.base.name': base,
      },
    });
    // Also without the script that the official image of Node begins with.
    expect(configuration.Entrypoint ?? []).toEqual([]);
    for (const [command = ''] of [configuration.Cmd, configuration.Healthcheck.Test.slice(1)]) expect(command).toBe('node');
  });

  it('has no TypeScript of packages, no source map without its source, no test code, and the licence of each package', async () => {
    const app = join(root, configuration.WorkingDir);
    const files = (await readdir(app, { recursive: true, withFileTypes: true })).filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
    const known = new Set(files);
    for (const map of files.filter((file) => file.endsWith('.map'))) {
      const { sources } = (await readJson(map)) as { sources: string[] };
      expect([map, sources.filter((source) => !known.has(join(dirname(map), source)))]).toEqual([map, []]);
    }
    const modules = join(app, 'node_modules');
    expect(files.filter((file) => file.startsWith(modules) && /\.[cm]?tsx?$/.test(file))).toEqual([]);
    const own = files.filter((file) => file.startsWith(join(app, 'dist')) || file.startsWith(join(app, 'src')));
    expect(own.filter((file) => /\.spec\.|\/testing[/.]|\/contracts\./.test(file))).toEqual([]);

    const isLicence = (name: string) => /^(licen[cs]e|copying|notice)/i.test(name) && !/\.(map|ts)$/.test(name);
    for (const manifest of files.filter((file) => file.startsWith(modules) && /node_modules\/(@[^/]+\/)?[^/@]+\/package\.json$/.test(file))) {
      const folder = dirname(manifest).slice(app.length + 1);
      const original = (await readdir(folder)).filter(isLicence);
      expect([folder, (await readdir(dirname(manifest))).filter(isLicence).toSorted()]).toEqual([folder, original.toSorted()]);
    }
  });

  it('has a valid list of exactly its packages, which are the dependencies without those for development', async () => {
    const app = join(root, configuration.WorkingDir);
    const list = join(app, 'sbom.cdx.json');
    const { metadata, components } = (await readJson(list)) as Sbom;
    expect(await readFile('docs/deploying.md', 'utf8')).toContain(`.components.length"\n\`\`\`\n\`\`\`text\n${components.length}\n`);
    const own = (await readJson('package.json')) as Manifest;
    expect(metadata.component).toMatchObject({ name: own.name, version: own.version });

    const manifests = (await readdir(app, { recursive: true })).filter((file) => /(^|\/)node_modules\/(@[^/]+\/)?[^/@]+\/package\.json$/.test(file));
    const packages = await Promise.all(manifests.map((file) => readJson(join(app, file)) as Promise<Manifest>));
    const labels = (list: readonly { name: string; version: string }[]) => [...new Set(list.map(({ name, version }) => `${name}@${version}`))].toSorted();
    expect(labels(components)).toEqual(labels(packages));

    const names = components.map(({ name }) => name);
    const bundle = await readdir(join(app, 'dist', 'bundle'));
    // Otherwise the service would look for modules that were compiled later, and might run without the bundle.
    expect(bundle.filter((file) => !/\.js(\.map)?$/.test(file))).toEqual([]);
    const code = await Promise.all(bundle.filter((file) => file.endsWith('.js')).map((file) => readFile(join(app, 'dist', 'bundle', file), 'utf8')));
    const bundled = code.flatMap((text) => [...text.matchAll(/^\/\/ \S*node_modules\/((?:@[^/]+\/)?[^/\s]+)\/\S+$/gm)].map(([, name = '']) => name));
    expect(bundled).toContain('@nestjs/core');
    expect(bundled.filter((name) => !names.includes(name))).toEqual([]);
    const needed = Object.keys(own.peerDependencies).filter((name) => !own.peerDependenciesMeta[name]?.optional);
    expect([...Object.keys(own.dependencies), ...needed].filter((name) => !names.includes(name))).toEqual([]);
    // Some are also dependencies of other packages, and then npm doesn't mark them.
    const { packages: lock } = (await readJson('package-lock.json')) as { packages: Record<string, { dev?: boolean; devOptional?: boolean } | undefined> };
    const ofDevelopment = Object.keys(own.devDependencies ?? {}).filter((name) => lock[`node_modules/${name}`]?.dev ?? lock[`node_modules/${name}`]?.devOptional);
    expect(ofDevelopment).toContain('typescript');
    expect(ofDevelopment.filter((name) => names.includes(name))).toEqual([]);
    if (isCycloneDxAvailable()) expect(await checkCycloneDx(list)).toBe('valid');
  });

  it('serves on a read-only root without /tmp, stores an upload, a role and a user in its volume, verifies the volume mounted read-only, and exits with 0 on SIGTERM', async () => {
    const port = await freePort();
    const begun = performance.now();
    const program = run({ PORT: port, BASE_PATH: '/grid/v1' });
    const service = await ready(program);
    console.log(`The container was ready ${Math.round(performance.now() - begun)} ms after its start.`);
    expect(service.readyLine).toBe(`Ready: http://127.0.0.1:${port}/grid/v1 | Swagger UI: http://127.0.0.1:${port}/grid/v1/docs`);
    expect((await fetch(service.swaggerUrl)).status).toBe(200);
    for (const page of ['README.md', 'CHANGELOG.md', 'CONTRIBUTING.md', 'LICENSE', 'docs/README.md', 'docs/adr/README.md', 'examples/README.md']) {
      expect([page, (await fetch(`${service.swaggerUrl}/pages/${page}`)).status]).toEqual([page, 200]);
    }
    expect(await upload(service.url)).toBe(200);
    const headers = { 'Content-Type': 'application/json', Authorization: `Bearer ${(await output({ PORT: port, BASE_PATH: '/grid/v1' }, 'dist/main.js', 'token')).trim()}` };
    const command = (name: string, body: object) => fetch(`${service.url}/idpManagementBackend/${name}`, { method: 'POST', headers, body: JSON.stringify(body) });
    const { role_id: role } = (await (await command('create-role', { role_name: 'Auditor', permissions: ['read:users'] })).json()) as { role_id: string };
    expect((await command('create-user', { email: 'ada@grid.example', name: 'Ada', roles: [role] })).status).toBe(201);
    // As the CronJob of the Helm chart does, beside the service.
    const verify = ['node', 'dist/main.js', 'verify', '--json'];
    expect(JSON.parse(await outputOf(run({}, verify, 'ro'), verify))).toMatchObject({ summary: SOUND });
    expect(await stop(program)).toEqual({ code: 0, signal: null });
    expect(program.stderr).toBe('');

    expect(await output({}, 'dist/main.js', 'token')).toMatch(/^[\w-]+\.[\w-]+\.[\w-]+\n$/);
    expect(JSON.parse(await output({}, 'dist/main.js', 'verify', '--json'))).toMatchObject({ summary: SOUND });
    expect(await output({}, 'dist/main.js', 'erase', '--customer', 'c')).toMatch(/1 upload/);
  });

  it('says in one line that the owner of a volume is another user', async () => {
    await chown(volume, 0, 0);
    const program = run();
    expect(await program.exited).toEqual({ code: 1, signal: null });
    expect(program.stdout + program.stderr).toMatch(/^DATA_DIR: EACCES: permission denied, \w+ '\/data\/?[^']*': let the user that runs the service read and write there.*\n$/);
  });

  it('is healthy while the service answers, whatever its port and base path are', async () => {
    const variables = { PORT: await freePort(), BASE_PATH: '/grid/v1' };
    const url = `http://127.0.0.1:${variables.PORT}/grid/v1/health`;
    expect(await healthcheck(variables)).toMatch(/^1 .*ECONNREFUSED.*\n$/);
    const program = run(variables);
    await ready(program);
    expect(await healthcheck(variables)).toBe('0 ');
    expect(await healthcheck(variables, 'ready')).toBe('0 ');
    expect(await healthcheck({ ...variables, BASE_PATH: '/other' })).toMatch(/^1 http.*\/other\/health\/live answered 404\n$/);
    await rm(join(volume, 'store-id'));
    await rm(join(volume, 'uploads'), { recursive: true });
    await expect.poll(() => healthcheck(variables, 'ready'), { timeout: 20_000 }).toBe(`1 ${url}/ready answered 503\n`);
    expect(await healthcheck(variables)).toBe('0 ');
    await stop(program);
  });

  it('has the entry points that its package.json names, which adapters use', async () => {
    const program = `
      import { createRequire } from 'node:module';
      const require = createRequire(process.cwd() + '/');
      const { name, exports } = require('./package.json');
      const paths = Object.keys(exports).map((path) => name + path.slice(1));
      for (const path of paths) for (const load of [require, (module) => import(module)]) await load(path);
      console.log(paths.join());`;
    expect(await output({}, '--input-type=module', '--eval', program)).toBe('load-data-service,load-data-service/app,load-data-service/client\n');
  });

  it('has what each command needs', async () => {
    const help = await output({}, 'dist/main.js', '--help');
    const names = [...help.matchAll(/^ {2}([a-z0-9-]+) {2}/gm)].map(([, name = '']) => name);
    expect(names).toHaveLength(8);
    for (const name of names) expect(await output({}, 'dist/main.js', name, '--help')).toContain(`load-data-service`);
  });

  describe('with other adapters', () => {
    let azurite: Azurite;
    let versitygw: Versitygw | undefined;
    beforeAll(async () => {
      azurite = await startAzurite();
      await azurite.createContainer('image');
      if (!isVersitygwAvailable()) return;
      versitygw = await startVersitygw();
      await versitygw.createBucket('image');
    }, STARTED_WITHIN_MS);
    afterAll(async () => {
      await azurite.stop();
      await versitygw?.stop();
    });

    /** Starts the service where a part of it can't be reached, and returns the reason that it logs. */
    async function reasonWhy(part: string, variables: Variables) {
      const program = run(variables);
      const { err } = JSON.parse(await program.line(new RegExp(`"${part} is unhealthy"`))) as { err: unknown };
      return { program, reason: JSON.stringify(err) };
    }

    it.runIf(isVersitygwAvailable())('stores uploads in S3, and looks for Keycloak', async () => {
      const PORT = await freePort();
      const bucket = { FILE_STORAGE: 's3', ...versitygw?.environment('image') };
      const keycloak = { IDENTITY_PROVIDER: 'keycloak', KEYCLOAK_URL: 'http://127.0.0.1:1', KEYCLOAK_REALM: 'r', KEYCLOAK_CLIENT_ID: 'c', KEYCLOAK_CLIENT_SECRET: 's' };
      const { program, reason } = await reasonWhy('identity_provider', { PORT, ...bucket, ...keycloak });
      expect(reason).toContain('ECONNREFUSED');
      expect(await upload(`http://127.0.0.1:${PORT}`)).toBe(200);
      expect(await stop(program)).toEqual({ code: 0, signal: null });
      expect(await output(bucket, 'dist/main.js', 'verify')).toContain('1');
      expect(await output(bucket, 'dist/main.js', 'compact', '--dry-run')).toContain('0');
    });

    it.runIf(isVersitygwAvailable())('moves the store in its volume to S3', async () => {
      const PORT = await freePort();
      const program = run({ PORT });
      await ready(program);
      expect(await upload(`http://127.0.0.1:${PORT}`)).toBe(200);
      expect(await stop(program)).toEqual({ code: 0, signal: null });
      const bucket = { FILE_STORAGE: 's3', ...versitygw?.environment('image'), S3_PREFIX: `moved-${PORT}` };
      expect(await output(bucket, 'dist/main.js', 'move', '--to', 's3')).toMatch(/^Moved 1 upload, 1 file, /);
      expect(JSON.parse(await output(bucket, 'dist/main.js', 'verify', '--json'))).toMatchObject({ summary: SOUND });
    });

    it('stores uploads in Azure, and looks for Auth0', async () => {
      const PORT = await freePort();
      const bucket = { FILE_STORAGE: 'azure', AZURE_STORAGE_CONTAINER: 'image', AZURE_STORAGE_CONNECTION_STRING: azurite.connectionString };
      const auth0 = { IDENTITY_PROVIDER: 'auth0', AUTH0_DOMAIN: 'auth0.invalid', AUTH0_CLIENT_ID: 'c', AUTH0_CLIENT_SECRET: 's', OIDC_AUDIENCE: 'load-data-api' };
      const { program, reason } = await reasonWhy('identity_provider', { PORT, ...bucket, ...auth0 });
      expect(reason).toContain('ENOTFOUND');
      expect(await upload(`http://127.0.0.1:${PORT}`)).toBe(200);
      expect(await stop(program)).toEqual({ code: 0, signal: null });
    });

    it("looks for Azure's credentials where there is no connection string", async () => {
      const account = { FILE_STORAGE: 'azure', AZURE_STORAGE_CONTAINER: 'image', AZURE_STORAGE_ACCOUNT_URL: 'https://azure.invalid', AZURE_TOKEN_CREDENTIALS: 'WorkloadIdentityCredential' };
      const { program, reason } = await reasonWhy('file_storage', { PORT: '0', ...account });
      expect(reason).toContain('CredentialUnavailableError');
      expect(await stop(program)).toEqual({ code: 0, signal: null });
    });
  });
});
