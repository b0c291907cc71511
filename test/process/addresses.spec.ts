import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type ServiceProcess, Workspace } from '../support/process.js';

const PUBLIC_URL = 'https://grid.example/api/v1';
const QUERY = '?customer_id=1&filename=f&manufacturer=m';
const UPLOAD = `/ingestHistoricalLoadData/upload_historical${QUERY}`;

const PATHS = [
  ['GET', '/docs', 200],
  ['GET', '/docs-json', 200],
  ['GET', '/health/live', 200],
  ['GET', '/health/ready', 200],
  ['GET', '/metrics', 200],
  ['GET', '/idp/.well-known/openid-configuration', 200],
  ['GET', '/idp/jwks', 200],
  ['POST', '/idp/token', 400],
  ['POST', UPLOAD, 403],
  ['POST', `/ingestNowcastLoadData/upload_nowcast${QUERY}`, 403],
  ['POST', '/idpManagementBackend/assign-role', 403],
  ['POST', '/idpManagementBackend/create-role', 403],
  ['POST', '/idpManagementBackend/create-user', 403],
  ['POST', '/idpManagementBackend/update-user', 403],
  ['GET', '/idpManagementBackend/roles', 403],
  ['GET', '/idpManagementBackend/users', 403],
] as const;

describe('BASE_PATH and PUBLIC_URL, from .env', () => {
  let workspace: Workspace;
  let service: ServiceProcess;
  let token: string;

  beforeAll(async () => {
    workspace = await Workspace.create();
    const file = `BASE_PATH=/v1\nPUBLIC_URL=${PUBLIC_URL}\nLOG_LEVEL=error\nMAX_UPLOAD_BYTES=1\nINGESTION_AUTH=required\nEMBEDDED_ADMIN_SECRET=given-by-somebody\n`;
    await writeFile(join(workspace.directory, '.env'), file);
    service = await workspace.start({ MAX_UPLOAD_BYTES: '4', LOG_LEVEL: '' });
    token = (await workspace.token()).stdout.trim();
  });
  afterAll(() => workspace.dispose());

  it.each(PATHS)('%s %s is served under the base path', async (method, path, status) => {
    expect((await fetch(`${service.origin}/v1${path}`, { method })).status).toBe(status);
  });

  it.each([...PATHS, ['GET', '/', 404], ['GET', '/v1x', 404], ['GET', '/v1', 404]] as const)(
    '%s %s is an unknown path outside it',
    async (method, path) => {
      const answer = await fetch(`${service.origin}${path}`, { method });
      expect(answer.status).toBe(404);
      expect(answer.headers.get('x-request-id')).toMatch(/^[A-Za-z0-9._-]{1,128}$/);
      expect(await answer.text()).toBe('{"error":"Not found."}');
    },
  );

  it('clients get the public URL', async () => {
    const metadata = await fetch(`${service.origin}/v1/idp/.well-known/openid-configuration`);
    expect(service).toMatchObject({ url: PUBLIC_URL, swaggerUrl: `${PUBLIC_URL}/docs` });
    expect(await metadata.json()).toMatchObject({
      issuer: `${PUBLIC_URL}/idp`,
      token_endpoint: `${PUBLIC_URL}/idp/token`,
      jwks_uri: `${PUBLIC_URL}/idp/jwks`,
    });
  });

  it('the environment overrides .env, and an empty value means unset', async () => {
    const upload = (body: string): Promise<Response> =>
      fetch(`${service.origin}/v1${UPLOAD}`, { method: 'POST', body, headers: { 'Content-Type': 'text/csv', Authorization: `Bearer ${token}` } });
    expect((await upload('1234')).status).toBe(200);
    expect((await upload('12345')).status).toBe(413);
    expect(service.program.lines).toEqual([service.readyLine]);
  });

  it('the ready line contains no secret, and a command that works here with uploads that need a token', async () => {
    expect(service.readyLine).toContain('(client admin, secret in EMBEDDED_ADMIN_SECRET)');
    expect(service.readyLine).not.toContain('given-by-somebody');
    expect(await workspace.paste(service.curl)).toMatch(/^\{"status":"ok"/);
  });
});
