import { execFile } from 'node:child_process';
import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { decodeProtectedHeader } from 'jose';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type ServiceProcess, Workspace } from '../support/process.js';

const run = promisify(execFile);

/** The commands in the part of docs/replacing-secrets.md below a heading, as they are written there. */
async function commandsBelow(heading: string): Promise<string[]> {
  const page = await readFile('docs/replacing-secrets.md', 'utf8');
  const part = page.split(/^## /m).find((text) => text.startsWith(`${heading}\n`)) ?? '';
  return [...part.matchAll(/^( *)```sh\n([^]*?)^ *```/gm)].map(([, indent = '', text = '']) => text.replaceAll(new RegExp(`^${indent}`, 'gm'), ''));
}

describe('the commands of docs/replacing-secrets.md', () => {
  let workspace: Workspace;
  let service: ServiceProcess;
  beforeEach(async () => {
    workspace = await Workspace.create();
    service = await workspace.start();
  });
  afterEach(() => workspace.dispose());

  const paste = async (command: string | undefined): Promise<void> => {
    expect(command).toBeDefined();
    await run('bash', ['-eu', '-c', command ?? ''], { env: { ...process.env, DATA_DIR: workspace.data } });
  };
  const newToken = async (): Promise<string> => (await workspace.token()).stdout.trim();
  const statusWith = async (token: string): Promise<number> =>
    (await fetch(`${service.url}/uploads`, { headers: { authorization: `Bearer ${token}` } })).status;
  const askForToken = (secret: string): Promise<Response> => {
    const headers = { authorization: `Basic ${btoa(`admin:${secret}`)}`, 'content-type': 'application/x-www-form-urlencoded' };
    return fetch(`${service.url}/idp/token`, { method: 'POST', headers, body: 'grant_type=client_credentials' });
  };
  const issuedToken = async (): Promise<string> => {
    const secret = (await readFile(join(workspace.data, 'identity', 'admin-secret'), 'utf8')).trim();
    return ((await (await askForToken(secret)).json()) as { access_token: string }).access_token;
  };
  const keyOf = (token: string): string | undefined => decodeProtectedHeader(token).kid;
  const bitsOf = async (kid: string | undefined): Promise<number> => {
    const { keys } = (await (await fetch(`${service.url}/idp/jwks`)).json()) as { keys: { kid: string; n: string }[] };
    return Buffer.from(keys.find((key) => key.kid === kid)?.n ?? '', 'base64url').length * 8;
  };
  const mode = async (name: string): Promise<number> => (await stat(join(workspace.data, 'identity', name))).mode & 0o777;

  it('replace the signing keys without a failed request or a restart, and then end old tokens', async () => {
    const [add, keepFirst] = await commandsBelow('Signing keys of the embedded provider');
    const old = await newToken();
    const statuses = new Set<number>();
    const replaced = new AbortController();
    const asking = (async () => {
      while (!replaced.signal.aborted) for (const token of [old, await issuedToken()]) statuses.add(await statusWith(token));
    })();
    try {
      await paste(add);
      const token = await newToken();
      expect(keyOf(token)).not.toBe(keyOf(old));
      expect([await statusWith(old), await statusWith(token)]).toEqual([200, 200]);
      // An RSA key of 3072 bits has a strength of 128.
      expect(await bitsOf(keyOf(token))).toBe(3072);
      expect(keyOf(await issuedToken())).toBe(keyOf(token));
      await paste(keepFirst);
      expect(await statusWith(await newToken())).toBe(200);
    } finally {
      replaced.abort();
    }
    await asking;
    expect([...statuses]).toEqual([200]);
    expect(await mode('signing-keys.json')).toBe(0o600);

    // The issuer is the service's base URL, whose port changes with each start here.
    await service.program.end('SIGTERM');
    service = await workspace.start({ PORT: new URL(service.origin).port });
    expect([await statusWith(old), await statusWith(await newToken())]).toEqual([403, 200]);
  });

  it("replace the administrator's secret without a failed request or a restart", async () => {
    const secrets = async (): Promise<string[]> => (await readFile(join(workspace.data, 'identity', 'admin-secret'), 'utf8')).trim().split(' ');
    const ask = async (secret: string | undefined): Promise<number> => (await askForToken(secret ?? '')).status;
    const [old] = await secrets();
    const statuses = new Set<number>();
    const replaced = new AbortController();
    const asking = (async () => {
      while (!replaced.signal.aborted) statuses.add(await ask((await secrets())[0]));
    })();
    const [add, keepFirst] = await commandsBelow('Secret of `admin`');
    try {
      await paste(add);
      expect(await secrets()).toEqual([expect.stringMatching(/^[0-9a-f]{64}$/), old]);
      for (const secret of await secrets()) expect(await ask(secret)).toBe(200);
      await paste(keepFirst);
      expect([await secrets(), await ask(old), await ask((await secrets())[0])]).toEqual([[expect.any(String)], 401, 200]);
    } finally {
      replaced.abort();
    }
    await asking;
    expect([...statuses]).toEqual([200]);
    expect(await mode('admin-secret')).toBe(0o600);
  });
});
