import { resolve } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { isKeycloakAvailable } from '../servers/keycloak.mjs';
import { MISSING_PROXIES } from '../servers/proxies.mjs';
import { isReleaseAvailable, packRelease, RELEASE } from '../servers/release-1.0.0.mjs';
import { isVersitygwAvailable } from '../servers/versitygw.mjs';
import { cacheVariables, type Program, Workspace } from '../support/process.js';

const WITHIN_MS = 600_000;

describe.runIf(isReleaseAvailable())('1.0.0 and this version', () => {
  let workspace: Workspace;
  let rehearsal: Program | undefined;
  beforeAll(async () => {
    await packRelease();
    workspace = await Workspace.create();
  }, WITHIN_MS);
  // Ends its servers, if the test has run out of time.
  afterEach(() => rehearsal?.end('SIGTERM'));
  afterAll(() => workspace.dispose());

  const rehearse = async (tool: string, ...parameters: string[]): Promise<string> => {
    rehearsal = workspace.run(process.execPath, [tool, '--rounds=1', `--other=${RELEASE}`, ...parameters], cacheVariables(), resolve('.'));
    const { code } = await rehearsal.exited;
    expect(code, rehearsal.stdout + rehearsal.stderr).toBe(0);
    return rehearsal.stdout;
  };

  it('exchange one DATA_DIR, there and back, and nothing is lost', () => rehearse('test/versions/run.mjs'), WITHIN_MS);

  it.runIf(isVersitygwAvailable() && isKeycloakAvailable() && !MISSING_PROXIES.includes('nginx'))(
    'exchange one bucket, replica by replica, there and back: nothing is lost or stored twice, and only requests in flight during a kill, or while 1.0.0 stopped, fail',
    async () => {
      const output = await rehearse('test/replicas/run.mjs', '--only=update,killed-update');
      for (const part of ['SIGTERM', 'kill -9']) expect(output).toMatch(new RegExp(`^another version, ${part} +\\d+ `, 'm'));
    },
    WITHIN_MS,
  );
});
