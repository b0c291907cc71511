import { resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { isKeycloakAvailable } from '../servers/keycloak.mjs';
import { MISSING_PROXIES } from '../servers/proxies.mjs';
import { isReleaseAvailable, packRelease, RELEASE } from '../servers/release-1.0.0.mjs';
import { isVersitygwAvailable } from '../servers/versitygw.mjs';
import { cacheVariables, Workspace } from '../support/process.js';

const WITHIN_MS = 600_000;

describe.runIf(isReleaseAvailable())('1.0.0 and this version', () => {
  let workspace: Workspace;
  beforeAll(async () => {
    await packRelease();
    workspace = await Workspace.create();
  }, WITHIN_MS);
  afterAll(() => workspace.dispose());

  it('exchange one DATA_DIR, there and back, and nothing is lost', async () => {
    const program = workspace.run(process.execPath, ['test/versions/run.mjs', '--rounds=1', `--other=${RELEASE}`], cacheVariables(), resolve('.'));
    const { code } = await program.exited;
    expect(code, program.stdout + program.stderr).toBe(0);
  }, WITHIN_MS);

  // By SIGTERM, 1.0.0 itself lets a few requests fail.
  it.runIf(isVersitygwAvailable() && isKeycloakAvailable() && !MISSING_PROXIES.includes('nginx'))(
    'exchange one bucket, replica by replica, there and back, and nothing is lost or stored twice',
    async () => {
      const program = workspace.run(process.execPath, ['test/replicas/run.mjs', '--rounds=1', '--only=killed-update', `--other=${RELEASE}`], cacheVariables(), resolve('.'));
      const { code } = await program.exited;
      expect(code, program.stdout + program.stderr).toBe(0);
    },
    WITHIN_MS,
  );
});
