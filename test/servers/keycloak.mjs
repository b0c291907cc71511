// Installs and starts Keycloak, an identity provider. `node test/servers/keycloak.mjs` runs one until it is
// interrupted; `npm run build` must have run before.
import { execFile, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { cp, mkdir, mkdtemp, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { parseEnv, promisify } from 'node:util';
import { CACHE } from './cache.mjs';
import { freePort, serveShell, Server } from './server.mjs';

const VERSION = '26.7.3';
const HOME = join(CACHE, `keycloak-${VERSION}`);
/** The database of a Keycloak that has only the realm `master`. */
const DATABASE = `${HOME}-database`;
const ADMINISTRATOR = { KC_BOOTSTRAP_ADMIN_USERNAME: 'admin', KC_BOOTSTRAP_ADMIN_PASSWORD: 'admin-secret' };

const FAST_START = ['-Xms64m', '-Xmx512m', '-XX:TieredStopAtLevel=1', '-XX:+UseSerialGC', '-XX:+UnlockDiagnosticVMOptions', '-XX:-BytecodeVerificationRemote'];
/**
 * Options that Keycloak's `bin/kc.sh` would set. Java is started without it, so that signals reach the server itself.
 */
const JAVA_OPTIONS = [
  ...['-XX:MaxMetaspaceSize=256m', '-Dfile.encoding=UTF-8'],
  '-Djava.util.concurrent.ForkJoinPool.common.threadFactory=io.quarkus.bootstrap.forkjoin.QuarkusForkJoinWorkerThreadFactory',
  '-Djava.util.logging.manager=org.jboss.logmanager.LogManager',
];
const ENTRY_POINT = 'io.quarkus.bootstrap.runner.QuarkusEntryPoint';

const databaseIn = (directory) => join(directory, 'data/h2');

const runs = (command, ...parameters) => spawnSync(command, parameters).status === 0;

class Keycloak extends Server {
  #realm;
  #token;
  #database;

  /**
   * @param {number} port
   * @param {string} realm
   * @param {string | undefined} database the database that each start begins with; undefined: an empty one
   * @param {(text: string) => void} [log]
   */
  constructor(port, realm, database, log) {
    super('Keycloak', port, log);
    this.#realm = realm;
    this.#database = database;
  }

  administrator = { KEYCLOAK_ADMIN_USERNAME: ADMINISTRATOR.KC_BOOTSTRAP_ADMIN_USERNAME, KEYCLOAK_ADMIN_PASSWORD: ADMINISTRATOR.KC_BOOTSTRAP_ADMIN_PASSWORD };

  /** Starts the server with the database that it began with. Like a database in memory, it keeps nothing. */
  async restart() {
    const database = databaseIn(this.directory);
    await rm(database, { recursive: true, force: true });
    if (this.#database) await cp(this.#database, database, { recursive: true });
    await super.restart();
  }

  administer(method, path, body) {
    return this.#call(method, `/${this.#realm}${path}`, body);
  }

  async createRealm(realm) {
    await this.#call('POST', '', realm);
  }

  async #call(method, path, body) {
    const url = `${this.endpoint}/admin/realms${path}`;
    const ask = async () => {
      this.#token ??= await this.#administratorToken();
      const headers = { authorization: `Bearer ${this.#token}`, 'content-type': 'application/json' };
      return fetch(url, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
    };
    let response = await ask();
    if (response.status === 401) {
      this.#token = undefined;
      response = await ask();
    }
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
    return text === '' ? undefined : JSON.parse(text);
  }

  async setUp(variables = {}) {
    const { PATH, HOME } = process.env;
    const env = { PATH, HOME, KEYCLOAK_URL: this.endpoint, KEYCLOAK_REALM: this.#realm, ...this.administrator, ...variables };
    const program = join(import.meta.dirname, '../../dist/commands/keycloak-setup.js');
    const { stdout } = await promisify(execFile)(process.execPath, [program], { cwd: this.directory, env });
    return parseEnv(stdout);
  }

  async #administratorToken() {
    const { KC_BOOTSTRAP_ADMIN_USERNAME: username, KC_BOOTSTRAP_ADMIN_PASSWORD: password } = ADMINISTRATOR;
    const body = new URLSearchParams({ grant_type: 'password', client_id: 'admin-cli', username, password });
    const response = await fetch(`${this.endpoint}/realms/master/protocol/openid-connect/token`, { method: 'POST', body });
    return (await response.json()).access_token;
  }
}

export const isKeycloakAvailable = () => runs('java', '-version') && (existsSync(HOME) || runs('mvn', '-version'));

/**
 * Installs Keycloak unless it is installed, which takes a minute or two and needs the network. Rejects if Java or Maven
 * is missing, or with the output of a program that failed.
 */
export async function installKeycloak() {
  if (!isKeycloakAvailable()) throw new Error(`Keycloak ${VERSION} needs Java, and Maven to be installed with.`);
  if (!existsSync(HOME)) await download();
  if (!existsSync(DATABASE)) await prepareDatabase();
}

async function download() {
  console.error(`Installing Keycloak ${VERSION}, which takes a minute or two.`);
  await mkdir(CACHE, { recursive: true });
  const fresh = await mkdtemp(`${HOME}.`);
  const run = promisify(execFile);
  try {
    const artifact = `-Dartifact=org.keycloak:keycloak-quarkus-dist:${VERSION}:tar.gz`;
    const goal = 'org.apache.maven.plugins:maven-dependency-plugin:3.8.1:unpack';
    await run('mvn', ['-q', '-B', goal, artifact, `-DoutputDirectory=${fresh}`], { cwd: fresh });
    const unpacked = join(fresh, `keycloak-${VERSION}`);
    await run(join(unpacked, 'bin/kc.sh'), ['build', '--db=dev-mem'], { cwd: fresh });
    await moveInto(HOME, unpacked);
  } finally {
    await rm(fresh, { recursive: true, force: true });
  }
}

/**
 * Creates the tables and the realm `master` once, which is over a third of the processor time of a start with an empty
 * database.
 */
async function prepareDatabase() {
  const port = await freePort();
  const server = new Keycloak(port, 'master', undefined);
  await launch(server, port, FAST_START, onFile(server));
  const fresh = await mkdtemp(`${DATABASE}.`);
  try {
    // Ended by SIGKILL, Keycloak could leave an incomplete database.
    process.kill(server.pid, 'SIGTERM');
    await server.exited;
    const copy = join(fresh, 'h2');
    await cp(databaseIn(server.directory), copy, { recursive: true });
    await moveInto(DATABASE, copy);
  } finally {
    await server.stop();
    await rm(fresh, { recursive: true, force: true });
  }
}

/** Moves a directory, unless another process has put its own there in the meantime. */
async function moveInto(place, directory) {
  try {
    await rename(directory, place);
  } catch (error) {
    if (!existsSync(place)) throw error;
  }
}

/** H2 waits for a row's lock for only 2 s by default, which is too short for 20 simultaneous writes on a busy machine. */
const LOCK_TIMEOUT_MS = 30_000;
const onFile = ({ directory }) => [`--db-url=jdbc:h2:file:${databaseIn(directory)}/keycloakdb;NON_KEYWORDS=VALUE;DB_CLOSE_ON_EXIT=FALSE;LOCK_TIMEOUT=${LOCK_TIMEOUT_MS}`];

/**
 * Starts a Keycloak that imports a realm, and installs Keycloak before if needed. Rejects if Keycloak isn't available
 * or doesn't start.
 *
 * @param {{ realm: { realm: string }, virtualMachine?: string[], log?: (text: string) => void }} options
 *   `virtualMachine`: options of Java, for a server with its database in memory. Default: those for a fast start, with
 *   a prepared database.
 * @returns {Promise<import('./keycloak.mjs').Keycloak>}
 */
export async function startKeycloak({ realm, virtualMachine, log }) {
  await installKeycloak();
  const port = await freePort();
  const server = new Keycloak(port, realm.realm, virtualMachine ? undefined : DATABASE, log);
  mkdirSync(join(server.directory, 'data/import'), { recursive: true });
  writeFileSync(join(server.directory, 'data/import/realm.json'), JSON.stringify(realm));
  await launch(server, port, virtualMachine ?? FAST_START, ['--import-realm', ...(virtualMachine ? [] : onFile(server))]);
  return server;
}

async function launch(server, port, virtualMachine, parameters) {
  const { directory, endpoint } = server;
  // Keycloak stores its data in its home directory. So each server has a home of its own, with links to the installed
  // files.
  for (const name of ['bin', 'conf', 'lib', 'providers', 'themes']) symlinkSync(join(HOME, name), join(directory, name));
  const program = [`-Dkc.home.dir=${directory}`, '-cp', join(directory, 'lib/quarkus-run.jar'), ENTRY_POINT];
  const options = ['--http-enabled=true', '--http-host=127.0.0.1', `--http-port=${port}`, `--hostname=${endpoint}`, '--cache=local', ...parameters];
  await server.start('java', [...virtualMachine, ...JAVA_OPTIONS, ...program, 'start', '--optimized', ...options], ADMINISTRATOR);
}

if (process.argv[1] === import.meta.filename) {
  await serveShell(async () => {
    const server = await startKeycloak({ realm: { realm: 'load-data', enabled: true } });
    const variables = await server.setUp();
    return { server, variables: { ...variables, ...server.administrator, KEYCLOAK_HOME: server.directory } };
  });
}
