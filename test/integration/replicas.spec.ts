import { resolve } from 'node:path';
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

  it('finds nothing lost, stored twice or failed when replicas are restarted, with the same secrets and with new ones', async () => {
    rehearsal = workspace.run(process.execPath, ['test/replicas/run.mjs', '--rounds=1', '--only=stop,rotate'], cacheVariables(), resolve('.'));
    const { code } = await rehearsal.exited;
    expect(code, rehearsal.stdout + rehearsal.stderr).toBe(0);
    for (const part of ['SIGTERM', 'new secrets, SIGTERM']) expect(rehearsal.stdout).toMatch(new RegExp(`^${part} +\\d+ `, 'm'));
  }, WITHIN_MS);
});
