import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, symlink, writeFile } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import Database from 'libsql';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Program, type ServiceProcess, type Variables, Workspace } from '../support/process.js';

describe('a start that cannot be', () => {
  let workspace: Workspace;
  let service: ServiceProcess;

  beforeAll(async () => {
    workspace = await Workspace.create();
    service = await workspace.start();
  }, 60_000);
  afterAll(() => workspace.dispose());

  /** Exit status 1, nothing but these lines on standard error, and no ready line. */
  async function expectRefused(program: Program, ...lines: RegExp[]): Promise<void> {
    expect(await program.exited).toEqual({ code: 1, signal: null });
    expect(program.stderr.split('\n')).toEqual([...lines.map((line) => expect.stringMatching(line) as string), '']);
    // What stops the boot is said once.
    expect(program.lines.filter((line) => /"level":[56]0/.test(line))).toEqual([]);
    for (const line of program.lines) expect(() => JSON.parse(line) as unknown).not.toThrow();
  }

  // Its port is in use as well: had it been opened first, that would be the complaint.
  it('names DATA_DIR when another process has it, before a port is opened', async () => {
    await expectRefused(workspace.launch({ PORT: String(service.port) }), /^DATA_DIR .*data.*in use/);
  });

  it('knows the same DATA_DIR through a link', async () => {
    const link = join(workspace.directory, 'link');
    await symlink(workspace.data, link);
    await expectRefused(workspace.launch({ PORT: String(service.port), DATA_DIR: link }), /^DATA_DIR .*link.*in use/);
  });

  it('says that the port is in use', async () => {
    const server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const data = join(workspace.directory, 'other');
    await expectRefused(workspace.launch({ PORT: String(port), DATA_DIR: data }), new RegExp(`^HOST, PORT: .*EADDRINUSE.*${port}`));
    server.close();
  });

  it('says that DATA_DIR is a file', async () => {
    const file = join(workspace.directory, 'file');
    await writeFile(file, '');
    await expectRefused(workspace.launch({ DATA_DIR: file }), new RegExp(`^DATA_DIR: .*${file}`));
  });

  it.each([
    ['identity.db', 'no database'],
    ['signing-keys.json', '[]'],
    ['admin-secret', ''],
    ['admin-secret', 'too-short\n'],
  ])('says that %s is not what it should be', async (name, text) => {
    const data = join(workspace.directory, `broken-${name}-${text.length}`);
    await mkdir(join(data, 'identity'), { recursive: true });
    await writeFile(join(data, 'identity', name), text);
    await expectRefused(workspace.launch({ DATA_DIR: data }), new RegExp(`^DATA_DIR: .*${name}`));
  });

  const fifo = (path: string) => promisify(execFile)('mkfifo', [path]);
  const file = (path: string) => writeFile(path, '');
  const garbage = (path: string) => writeFile(path, 'garbage'.repeat(1_000));
  const directory = (path: string) => mkdir(path);
  const link = (path: string) => symlink('/nowhere', path);
  const otherDatabase = (path: string) => {
    const database = new Database(path);
    database.exec('CREATE TABLE users (a); PRAGMA user_version = 1');
    database.close();
  };

  const databaseWithOurTables = (path: string) => {
    const database = new Database(path);
    for (const name of ['roles', 'role_permissions', 'users', 'user_roles', 'settings']) database.exec(`CREATE TABLE ${name} (a)`);
    database.exec('PRAGMA user_version = 1; PRAGMA application_id = 7');
    database.close();
  };

  it.each<[string, string, (path: string) => unknown]>([
    ['a file', 'uploads', file],
    ['a file', 'files', file],
    ['a link to nothing', 'staging', link],
    ['a file', 'pending', file],
    ['a file', 'identity', file],
    ['a directory', 'uploads.lock', directory],
    ['garbage', 'uploads.lock', garbage],
    ['a FIFO', 'identity.lock', fifo],
    ['empty', 'identity/admin-secret', file],
    ['a directory', 'identity/admin-secret', directory],
    ['a FIFO', 'identity/admin-secret', fifo],
    ['empty', 'identity/signing-keys.json', file],
    ['garbage', 'identity/signing-keys.json', garbage],
    ['a directory', 'identity/signing-keys.json', directory],
    ['a directory', 'identity/identity.db', directory],
    ['a FIFO', 'identity/identity.db', fifo],
    ['garbage', 'identity/identity.db', garbage],
    ["somebody else's", 'identity/identity.db', otherDatabase],
    ['a FIFO', 'identity/identity.db-wal', fifo],
    ['a FIFO', 'identity/identity.db-journal', fifo],
    ["somebody else's, with tables named as ours", 'identity/identity.db', databaseWithOurTables],
    ['a link to nothing', 'identity/identity.db', link],
    ['a link to nothing', 'identity/signing-keys.json', link],
    ['a link to nothing', 'identity/admin-secret', link],
    ['a link to nothing', 'uploads.lock', link],
    ['a FIFO', 'uploads.lock-journal', fifo],
    ['a file', 'uploads/kind=historical', file],
    ['a link to nothing', 'files/kind=nowcast', link],
    ['a file', 'uploads/kind=nowcast', file],
    ['a link to nothing', 'files/kind=historical', link],
  ])('says in one line which part of DATA_DIR is %s: %s', async (what, name, make) => {
    const data = join(workspace.directory, `${what}-${name}`.replaceAll(/\W/g, '-'));
    await mkdir(dirname(join(data, name)), { recursive: true });
    await make(join(data, name));
    await expectRefused(workspace.launch({ DATA_DIR: data }), new RegExp(`^DATA_DIR: .*${join(data, name)}.*(move it|remove|put )`, 'i'));
  });

  it.each<[string, (base: string) => Promise<string>]>([
    ['is beneath /proc', () => Promise.resolve('/proc/load-data/data')],
    ['is beneath a file', async (base) => (await file(join(base, 'a-file')), join(base, 'a-file', 'data'))],
    ['is a link to nothing', async (base) => (await link(join(base, 'a-link')), join(base, 'a-link'))],
    ['is a device', () => Promise.resolve('/dev/null')],
    ['has a name too long', (base) => Promise.resolve(join(base, 'x'.repeat(300)))],
  ])('says in one line that DATA_DIR %s', async (_, make) => {
    const data = await make(workspace.directory);
    await expectRefused(workspace.launch({ DATA_DIR: data }), /^DATA_DIR: .*\/.*(set DATA_DIR|make the directory)/);
  });

  it.each<[string, Variables, RegExp[]]>([
    ['one wrong variable', { PORT: 'x' }, [/^PORT: /]],
    ['a secret that can be guessed', { EMBEDDED_ADMIN_SECRET: 'a' }, [/^EMBEDDED_ADMIN_SECRET: must be at least 16 visible ASCII characters$/]],
    ['several', { PORT: '70000', LOG_LEVEL: 'loud', INGESTION_AUTH: '1' }, [/^PORT: /, /^INGESTION_AUTH: /, /^LOG_LEVEL: /]],
    [
      'what Auth0 needs',
      { IDENTITY_PROVIDER: 'auth0', AUTH0_CLIENT_ID: 'a', AUTH0_CLIENT_SECRET: 'secret' },
      [/^AUTH0_DOMAIN: must be set$/, /^OIDC_AUDIENCE: must be set$/],
    ],
    [
      'a connection string that is none',
      { FILE_STORAGE: 'azure', AZURE_STORAGE_CONTAINER: 'a', AZURE_STORAGE_CONNECTION_STRING: 'secret' },
      [/^AZURE_STORAGE_CONNECTION_STRING: (?!.*secret)/],
    ],
    ['what the adapter needs', { FILE_STORAGE: 's3', STORAGE_TIMEOUT_MS: '0' }, [/^STORAGE_TIMEOUT_MS: /, /^S3_BUCKET: must be set$/]],
  ])('names what is wrong in the environment, one line a problem: %s', async (_, variables, lines) => {
    await expectRefused(workspace.launch({ PORT: String(service.port), ...variables }), ...lines);
  });

  it('leaves the service that runs alone', async () => {
    expect((await fetch(`${service.url}/health/ready`)).status).toBe(200);
    expect(service.program.stderr).toBe('');
  });
});
