import { once } from 'node:events';
import { symlink, writeFile } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Program, type ServiceProcess, type Variables, Workspace } from '../support/process.js';

describe('a refused start', () => {
  let workspace: Workspace;
  let service: ServiceProcess;

  beforeAll(async () => {
    workspace = await Workspace.create();
    service = await workspace.start({ KEYCLOAK_URL: 'https://id.example', KEYCLOAK_CLIENT_SECRET: 'x-secret', RATE_LIMIT_PER_MINUT: '4711' });
  }, 60_000);
  afterAll(() => workspace.dispose());

  /**
   * Expects that the program exits with status 1, prints only these lines on standard error, and prints no ready line.
   */
  async function expectRefused(program: Program, ...lines: RegExp[]): Promise<void> {
    expect(await program.exited).toEqual({ code: 1, signal: null });
    expect(program.stderr.split('\n')).toEqual([...lines.map((line) => expect.stringMatching(line) as string), '']);
    // The cause is reported only on standard error: the log has no error.
    expect(program.lines.filter((line) => /"level":[56]0/.test(line))).toEqual([]);
    for (const line of program.lines) expect(() => JSON.parse(line) as unknown).not.toThrow();
  }

  // The port is in use as well. If the service opened the port before it locks DATA_DIR, the message would be about the
  // port.
  it('names DATA_DIR if another process uses it, also through a link, before a port is opened', async () => {
    const link = join(workspace.directory, 'link');
    await symlink(workspace.data, link);
    const line = /^DATA_DIR .*link.*in use by another process.*: stop it.*, or set DATA_DIR to another directory$/;
    await expectRefused(workspace.launch({ PORT: String(service.port), DATA_DIR: link }), line);
  });

  it('reports that the port is in use', async () => {
    const server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const data = join(workspace.directory, 'other');
    await expectRefused(workspace.launch({ PORT: String(port), DATA_DIR: data }), new RegExp(`^HOST, PORT: .*EADDRINUSE.*${port}`));
    server.close();
  });

  it('reports that DATA_DIR is a file', async () => {
    const file = join(workspace.directory, 'file');
    await writeFile(file, '');
    await expectRefused(workspace.launch({ DATA_DIR: file }), new RegExp(`^DATA_DIR: .*${file}`));
  });

  it.each<[string, Variables, RegExp[]]>([
    ['several variables', { PORT: '70000', LOG_LEVEL: 'loud', INGESTION_AUTH: '1' }, [/^PORT: /, /^INGESTION_AUTH: /, /^LOG_LEVEL: /]],
    [
      'a malformed connection string',
      { FILE_STORAGE: 'azure', AZURE_STORAGE_CONTAINER: 'a', AZURE_STORAGE_CONNECTION_STRING: 'secret' },
      [/^AZURE_STORAGE_CONNECTION_STRING: (?!.*secret)/],
    ],
  ])('names each problem of the environment on its own line: %s', async (_, variables, lines) => {
    await expectRefused(workspace.launch({ PORT: String(service.port), ...variables }), ...lines);
  });

  it('is not caused by variables without effect: a warning in the log names them, without their values', () => {
    const { lines, stdout, stderr } = service.program;
    const warnings = lines.filter((line) => line.includes('"level":40')).map((line) => (JSON.parse(line) as { msg: string }).msg);
    expect(warnings).toEqual([
      'KEYCLOAK_URL, KEYCLOAK_CLIENT_SECRET: without effect, because IDENTITY_PROVIDER is "embedded"',
      'RATE_LIMIT_PER_MINUT: unknown variable, without effect: did you mean RATE_LIMIT_PER_MINUTE?',
    ]);
    expect(stdout + stderr).not.toMatch(/x-secret|4711/);
  });

  it('does not affect the running service', async () => {
    expect((await fetch(`${service.url}/health/ready`)).status).toBe(200);
    expect(service.program.stderr).toBe('');
  });
});
