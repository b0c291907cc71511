import { symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type ServiceProcess, Workspace } from '../support/process.js';
import { expectRefused } from '../support/refused-start.js';

describe('a refused start', () => {
  let workspace: Workspace;
  let service: ServiceProcess;

  beforeAll(async () => {
    workspace = await Workspace.create();
    service = await workspace.start({ KEYCLOAK_URL: 'https://id.example', KEYCLOAK_CLIENT_SECRET: 'x-secret', RATE_LIMIT_PER_MINUT: 'x-limit' });
  }, 60_000);
  afterAll(() => workspace.dispose());

  // The port is in use as well. If the service opened the port before it locks DATA_DIR, the message would be about the
  // port.
  it('names DATA_DIR if another process uses it, also through a link, before a port is opened', async () => {
    const link = join(workspace.directory, 'link');
    await symlink(workspace.data, link);
    const line = /^DATA_DIR .*link.*in use by another process.*: stop it.*, or set DATA_DIR to another directory$/;
    await expectRefused(workspace.launch({ PORT: String(service.port), DATA_DIR: link }), line);
  });

  it('reports that the port is in use', async () => {
    const data = join(workspace.directory, 'other');
    await expectRefused(workspace.launch({ PORT: String(service.port), DATA_DIR: data }), new RegExp(`^HOST, PORT: .*EADDRINUSE.*${service.port}`));
  });

  it('reports that DATA_DIR is a file', async () => {
    const file = join(workspace.directory, 'file');
    await writeFile(file, '');
    await expectRefused(workspace.launch({ DATA_DIR: file }), new RegExp(`^DATA_DIR: .*${file}`));
  });

  it('reports a malformed connection string, without its secret', async () => {
    const variables = { FILE_STORAGE: 'azure', AZURE_STORAGE_CONTAINER: 'a', AZURE_STORAGE_CONNECTION_STRING: 'secret' };
    await expectRefused(workspace.launch(variables), /^AZURE_STORAGE_CONNECTION_STRING: (?!.*secret)/);
  });

  it('names each problem of the environment on its own line', async () => {
    const variables = { PORT: '70000', LOG_LEVEL: 'loud', INGESTION_AUTH: '1' };
    await expectRefused(workspace.launch(variables), /^PORT: /, /^INGESTION_AUTH: /, /^LOG_LEVEL: /);
  });

  it('is not caused by variables without effect: a warning in the log names them, without their values', () => {
    const { lines, stdout, stderr } = service.program;
    const warnings = lines.filter((line) => line.includes('"level":40')).map((line) => (JSON.parse(line) as { msg: string }).msg);
    expect(warnings).toEqual([
      'KEYCLOAK_URL, KEYCLOAK_CLIENT_SECRET: without effect, because IDENTITY_PROVIDER is "embedded"',
      'RATE_LIMIT_PER_MINUT: unknown variable, without effect: did you mean RATE_LIMIT_PER_MINUTE?',
    ]);
    expect(stdout + stderr).not.toMatch(/x-secret|x-limit/);
  });

  it('does not affect the running service', async () => {
    expect((await fetch(`${service.url}/health/ready`)).status).toBe(200);
    expect(service.program.stderr).toBe('');
  });
});
