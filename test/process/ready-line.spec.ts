import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type Program, Workspace } from '../support/process.js';

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

  // Each row starts a service, so a row combines several variables to save time.
  it.each<[string, Record<string, string>, RegExp]>([
    ['LOG_LEVEL=trace, on every address', { LOG_LEVEL: 'trace', LOG_CUSTOMERS: 'true', HOST: '0.0.0.0' }, UPLOADED],
    ['LOG_LEVEL=silent, with a base path', { LOG_LEVEL: 'silent', BASE_PATH: '/grid/v1' }, UPLOADED],
    ['LOG_LEVEL=info, with uploads that need a token', { LOG_LEVEL: 'info', INGESTION_AUTH: 'required' }, /^\{"status":"(ok|success)"/],
  ])('is the only line that is not JSON, and ends with a command that works when pasted: %s', async (_, variables, answer) => {
    const { program, readyLine, url, swaggerUrl, curl } = await workspace.start(variables);

    expect(new URL(url).hostname).toBe('127.0.0.1');
    expect(swaggerUrl).toBe(`${url}/docs`);
    expect((await fetch(`${url}/health/ready`)).status).toBe(200);
    expect((await fetch(swaggerUrl)).status).toBe(200);
    expect((await fetch(`${url}/nowhere`)).status).toBe(404);
    expect(readyLine.endsWith(curl ?? '?')).toBe(true);
    expect(await paste(curl)).toMatch(answer);

    expect(await program.end('SIGTERM')).toEqual({ code: 0, signal: null });
    expectJsonBut(readyLine, program);
    expect(program.stderr).toBe('');
    if (variables.LOG_LEVEL === 'silent') expect(program.lines).toEqual([readyLine]);
    expect(program.lines.some((line) => line.includes('"customerId":"acme-energy"'))).toBe(variables.LOG_CUSTOMERS === 'true');
  });

  it.each<[string, Record<string, string>]>([
    ['in DATA_DIR', {}],
    ['in the environment', { EMBEDDED_ADMIN_SECRET: 'given-by-somebody' }],
  ])("behind a proxy, says where the administrator's secret is, and how to get a token: %s", async (_, variables) => {
    const { readyLine, url, curl } = await workspace.start({ BASE_PATH: '/v1', PUBLIC_URL: 'https://grid.example/api/v1', ...variables });
    expect(url).toBe('https://grid.example/api/v1');
    const [, place = ''] = /\| token: npm run --silent token \(client admin, secret in ([^)]+)\) \| try: curl /.exec(readyLine) ?? [];
    expect(place).toBe(variables.EMBEDDED_ADMIN_SECRET === undefined ? join(workspace.data, 'identity', 'admin-secret') : 'EMBEDDED_ADMIN_SECRET');
    expect(readyLine).not.toContain('given-by-somebody');
    expect(await paste(curl)).toMatch(UPLOADED);
    expect((await workspace.token()).stdout).toMatch(/^[\w-]+\.[\w-]+\.[\w-]+\n$/);
  });

  it('contains no command with NODE_ENV=production', async () => {
    const { readyLine, url } = await workspace.start({ NODE_ENV: 'production' });
    expect(readyLine).not.toMatch(/curl|token/);
    expect((await fetch(`${url}/health/ready`)).status).toBe(200);
  });
});
