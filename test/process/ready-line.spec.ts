import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type Program, Workspace } from '../support/process.js';

describe('the ready line', () => {
  let workspace: Workspace;

  beforeEach(async () => {
    workspace = await Workspace.create();
  });
  afterEach(() => workspace.dispose());

  function expectJsonBut(readyLine: string, { lines }: Program): void {
    expect(lines.filter((line) => line === readyLine)).toHaveLength(1);
    for (const line of lines.filter((line) => line !== readyLine)) {
      expect(JSON.parse(line)).toEqual(expect.objectContaining({ level: expect.any(Number) as number }));
    }
  }

  // Each test starts a service, so that it combines several variables to save time.
  it('is the only line that is not JSON, and ends with a command that works when pasted', async () => {
    const { program, readyLine, url, swaggerUrl, curl } = await workspace.start({ LOG_LEVEL: 'trace', LOG_CUSTOMERS: 'true', HOST: '0.0.0.0' });
    expect(new URL(url).hostname).toBe('127.0.0.1');
    expect(swaggerUrl).toBe(`${url}/docs`);
    const secret = join(workspace.data, 'identity', 'admin-secret');
    expect(readyLine).toContain(` | token: npm run --silent token (client admin, secret in ${secret}) | try: curl `);
    expect(readyLine.endsWith(curl ?? '?')).toBe(true);

    expect((await fetch(`${url}/health/ready`)).status).toBe(200);
    expect((await fetch(`${url}/docs`)).status).toBe(200);
    expect((await fetch(`${url}/nowhere`)).status).toBe(404);
    expect(await workspace.paste(curl)).toBe('{"status":"success","message":"Data uploaded successfully."}\n');

    expect(await program.end('SIGTERM')).toEqual({ code: 0, signal: null });
    expectJsonBut(readyLine, program);
    expect(program.stderr).toBe('');
    expect(program.lines.some((line) => line.includes('"customerId":"acme-energy"'))).toBe(true);
  });

  it('is the only line with LOG_LEVEL=silent, and contains no command with NODE_ENV=production', async () => {
    const { program, readyLine, url } = await workspace.start({ LOG_LEVEL: 'silent', NODE_ENV: 'production' });
    expect(readyLine).not.toMatch(/curl|token/);
    expect((await fetch(`${url}/health/ready`)).status).toBe(200);
    expect(await program.end('SIGTERM')).toEqual({ code: 0, signal: null });
    expect(program.lines).toEqual([readyLine]);
  });
});
