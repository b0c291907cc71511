import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type Program, type ServiceProcess, Workspace } from '../support/process.js';

const TOKEN = /^[\w-]+\.[\w-]+\.[\w-]+\n$/;
const UPLOADED = /^\{"status":"success","message":"Data uploaded successfully\."\}\n$/;

describe('the ready line', () => {
  let workspace: Workspace;

  beforeEach(async () => {
    workspace = await Workspace.create();
  });
  afterEach(() => workspace.dispose());

  /**
   * Runs a command line in a shell, as if it were pasted into a terminal, in a directory other than the service's.
   * Resolves to its output.
   */
  async function paste(command: string | undefined): Promise<string> {
    const shell = workspace.run('/bin/sh', ['-c', command ?? 'false'], {}, '/');
    expect(await shell.exited).toEqual({ code: 0, signal: null });
    return shell.stdout;
  }

  function expectJsonBut(readyLine: string, { lines }: Program): void {
    expect(lines.filter((line) => line === readyLine)).toHaveLength(1);
    for (const line of lines.filter((line) => line !== readyLine)) {
      expect(JSON.parse(line)).toEqual(expect.objectContaining({ level: expect.any(Number) as number }));
    }
  }

  /** Expects that the service is served at this base URL, and prints no other plain text than the ready line. */
  async function expectServed(url: string, { program, readyLine, curl }: ServiceProcess, answer: RegExp): Promise<void> {
    expect((await fetch(`${url}/health/ready`)).status).toBe(200);
    expect((await fetch(`${url}/docs`)).status).toBe(200);
    expect((await fetch(`${url}/nowhere`)).status).toBe(404);
    expect(readyLine.endsWith(curl ?? '?')).toBe(true);
    expect(await paste(curl)).toMatch(answer);

    expect(await program.end('SIGTERM')).toEqual({ code: 0, signal: null });
    expectJsonBut(readyLine, program);
    expect(program.stderr).toBe('');
  }

  /** The place of the administrator's secret that the ready line names. */
  const secretPlace = (readyLine: string): string | undefined => / \| token: npm run --silent token \(client admin, secret in ([^)]+)\) \| try: curl /.exec(readyLine)?.[1];

  // Each test starts a service, so that it combines several variables to save time.
  it('is the only line that is not JSON, and ends with a command that works when pasted', async () => {
    const service = await workspace.start({ LOG_LEVEL: 'trace', LOG_CUSTOMERS: 'true', HOST: '0.0.0.0' });
    const { program, readyLine, url, swaggerUrl } = service;

    expect(new URL(url).hostname).toBe('127.0.0.1');
    expect(swaggerUrl).toBe(`${url}/docs`);
    expect(secretPlace(readyLine)).toBe(join(workspace.data, 'identity', 'admin-secret'));
    await expectServed(url, service, UPLOADED);
    expect(program.lines.some((line) => line.includes('"customerId":"acme-energy"'))).toBe(true);
  });

  it('has the URLs that clients behind a proxy see, no secret, and a command that works here with uploads that need a token', async () => {
    const variables = { BASE_PATH: '/v1', PUBLIC_URL: 'https://grid.example/api/v1', EMBEDDED_ADMIN_SECRET: 'given-by-somebody', INGESTION_AUTH: 'required' };
    const service = await workspace.start(variables);
    const { program, readyLine, url, swaggerUrl, origin } = service;
    expect({ url, swaggerUrl }).toEqual({ url: 'https://grid.example/api/v1', swaggerUrl: 'https://grid.example/api/v1/docs' });
    expect(secretPlace(readyLine)).toBe('EMBEDDED_ADMIN_SECRET');
    expect(readyLine).not.toContain('given-by-somebody');
    expect((await workspace.token()).stdout).toMatch(TOKEN);
    await expectServed(`${origin}/v1`, service, /^\{"status":"(ok|success)"/);
    expect(program.lines.some((line) => line.includes('customerId'))).toBe(false);
  });

  it('is the only line with LOG_LEVEL=silent, and contains no command with NODE_ENV=production', async () => {
    const { program, readyLine, url } = await workspace.start({ LOG_LEVEL: 'silent', NODE_ENV: 'production' });
    expect(readyLine).not.toMatch(/curl|token/);
    expect((await fetch(`${url}/health/ready`)).status).toBe(200);
    expect(await program.end('SIGTERM')).toEqual({ code: 0, signal: null });
    expect(program.lines).toEqual([readyLine]);
  });
});
