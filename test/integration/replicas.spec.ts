import { copyFile, mkdir } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { isKeycloakAvailable } from '../servers/keycloak.mjs';
import { MISSING_PROXIES } from '../servers/proxies.mjs';
import { isVersitygwAvailable } from '../servers/versitygw.mjs';
import { cacheVariables, type Program, Workspace } from '../support/process.js';

const WITHIN_MS = 600_000;

describe.runIf(isVersitygwAvailable() && isKeycloakAvailable() && !MISSING_PROXIES.includes('nginx'))('npm run test:replicas', () => {
  let workspace: Workspace;
  let rehearsal: Program;
  beforeEach(async () => {
    workspace = await Workspace.create();
  });
  afterEach(async () => {
    // Ends its servers, if the test has run out of time.
    await rehearsal.end('SIGTERM');
    await workspace.dispose();
  });

  const rehearse = async (...parameters: string[]) => {
    rehearsal = workspace.run(process.execPath, ['test/replicas/run.mjs', '--rounds=1', ...parameters], cacheVariables(), resolve('.'));
    return (await rehearsal.exited).code;
  };

  it('finds nothing lost or stored twice when replicas are restarted, killed and get new secrets, and nothing failed that was not in flight during a kill', async () => {
    const code = await rehearse('--only=stop,kill,rotate');
    expect(code, rehearsal.stdout + rehearsal.stderr).toBe(0);
    for (const part of ['SIGTERM', 'kill -9', 'new secrets, SIGTERM']) expect(rehearsal.stdout).toMatch(new RegExp(`^${part} +\\d+ `, 'm'));
  }, WITHIN_MS);

  it('refuses to compare this version with itself', async () => {
    const copy = join(workspace.directory, 'copy', 'main.js');
    await mkdir(dirname(copy));
    await copyFile('dist/main.js', copy);
    expect(await rehearse('--only=update', `--other=${copy}`)).toBe(1);
    expect(rehearsal.stderr).toBe(`--other=${copy} has the same code as the build in dist. docs/testing.md shows how to pack another version.\n`);
  });
});
