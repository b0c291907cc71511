import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type ServiceProcess, Workspace } from '../support/process.js';
import { exchange } from '../support/raw.js';

describe('problems found by random requests', () => {
  let workspace: Workspace;
  let service: ServiceProcess;

  beforeAll(async () => {
    workspace = await Workspace.create();
    service = await workspace.start();
  });
  afterAll(() => workspace.dispose());

  it.each(['\\ud800', '\\ud800@grid.example', 'a@\\udc00.example'])('the e-mail "%s" is rejected, because it is not valid Unicode', async (email) => {
    const token = (await workspace.token()).stdout.trim();
    const answer = await fetch(`${service.url}/idpManagementBackend/create-user`, {
      method: 'POST',
      headers: { Authorization: `Bearer ${token}`, 'Content-Type': 'application/json' },
      body: `{"email":"${email}","roles":[]}`,
    });
    expect([answer.status, await answer.text()]).toEqual([400, '{"error":"Invalid email or roles."}']);
  });

  it.each([
    ['a hundred thousand members', () => `{${Array.from({ length: 100_000 }, (_, index) => `"${index.toString(36)}k":1`).join()},"email":1}`],
    ['half a million nested lists', () => `{"x":${'['.repeat(500_000)}${']'.repeat(500_000)}}`],
    ['a quarter of a million roles', () => `{"email":"a@b.example","roles":[${Array.from({ length: 250_000 }, () => '"x"').join()}]}`],
    ['a third of a million permissions', () => `{"email":"a@b.example","roles":"x","permissions":[${'"",'.repeat(340_000)}""]}`],
  ])('%s do not block the service for others', async (_name, body) => {
    const token = (await workspace.token()).stdout.trim();
    const answer = await fetch(`${service.url}/idpManagementBackend/create-user`, {
      method: 'POST',
      headers: { Authorization: `Bearer ${token}`, 'Content-Type': 'application/json' },
      body: body(),
      signal: AbortSignal.timeout(5_000),
    });
    expect([answer.status, await answer.text()]).toEqual([400, '{"error":"Invalid email or roles."}']);
  });

  it("the answer to CONNECT has the client's request id", async () => {
    const answer = await exchange(service.port, 'CONNECT /health/live HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: abc-1\r\n\r\n');
    expect(answer).toMatchObject({ status: 404, body: '{"error":"Not found."}', headers: { 'x-request-id': 'abc-1' } });
  });
});
