import { mkdir } from 'node:fs/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type ServiceProcess, Workspace } from '../support/process.js';

// PUBLIC_URL is set, because otherwise the tokens' issuer would contain the port, which PORT=0 makes random.
const BEFORE = { PUBLIC_URL: 'http://grid.example', INGESTION_AUTH: 'required' };

describe('the token command and the service', () => {
  let workspace: Workspace;
  let service: ServiceProcess;
  let made: string;
  /** Made while the service runs. The environment of the token command differs from that of the service. */
  let later: string;

  beforeAll(async () => {
    workspace = await Workspace.create();
    // DATA_DIR exists and is empty, as before the first start of a service, when the token command runs for the first
    // time.
    await mkdir(workspace.data);
    made = await token([], BEFORE);
    service = await workspace.start(BEFORE);
    later = await token();
  });
  afterAll(() => workspace.dispose());

  /**
   * The token that the token command prints. By default, the command's environment differs from that of the service.
   */
  async function token(parameters: readonly string[] = [], variables: Record<string, string> = { PORT: '3999' }): Promise<string> {
    const { code, stdout, stderr } = await workspace.token(parameters, variables);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    return stdout.trim();
  }

  async function call(path: string, bearer: string, body?: unknown): Promise<{ status: number; answer: Record<string, unknown> }> {
    const response = await fetch(`${service.origin}${path}`, {
      method: body === undefined ? 'GET' : 'POST',
      headers: { Authorization: `Bearer ${bearer}`, 'Content-Type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    return { status: response.status, answer: (await response.json()) as Record<string, unknown> };
  }

  const upload = async (customer: string, bearer: string): Promise<number> => {
    const query = `customer_id=${customer}&filename=f&manufacturer=m`;
    return (await call(`/ingestHistoricalLoadData/upload_historical?${query}`, bearer, {})).status;
  };

  it('agree on a token from before the service started', async () => {
    expect(await call('/idpManagementBackend/users', made)).toEqual({ status: 200, answer: { users: [] } });
  });

  it('agree on a token from while the service runs, with another PORT and no PUBLIC_URL', async () => {
    expect((await call('/idpManagementBackend/roles', later)).status).toBe(200);
  });

  it('agree on customers', async () => {
    const bearer = await token(['--customer', 'a', '--customer', 'b']);
    expect(await Promise.all([upload('a', bearer), upload('b', bearer), upload('c', bearer)])).toEqual([200, 200, 403]);
    expect(await upload('c', later)).toBe(200);
  });

  it('agree on a user, their permissions and their customers', async () => {
    const create = { role_name: 'Uploaders', permissions: ['upload:historical', 'read:roles'] };
    const role = await call('/idpManagementBackend/create-role', made, create);
    const body = { email: 'ada@grid.example', roles: [role.answer.role_id] };
    const user = await call('/idpManagementBackend/create-user', made, body);

    const bearer = await token(['--user', String(user.answer.user_id), '--customer', 'a']);
    expect((await call('/idpManagementBackend/roles', bearer)).status).toBe(200);
    expect((await call('/idpManagementBackend/users', bearer)).status).toBe(403);
    expect(await Promise.all([upload('a', bearer), upload('b', bearer)])).toEqual([200, 403]);
  });

  it('issue no token for an unknown user', async () => {
    const { code, stdout, stderr } = await workspace.token(['--user', 'embedded|00000000-0000-4000-8000-000000000000']);
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
    expect(stderr).toMatch(/^[^\n]+\n$/);
  });
});
