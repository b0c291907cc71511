import { copyFile, mkdir } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { isKeycloakAvailable } from '../servers/keycloak.mjs';
import { MISSING_PROXIES } from '../servers/proxies.mjs';
import { isReleaseAvailable, packRelease, RELEASE } from '../servers/release-1.0.0.mjs';
import { isVersitygwAvailable } from '../servers/versitygw.mjs';
import { cacheVariables, type Program, Workspace } from '../support/process.js';
import { retryUnless } from '../support/retries.js';

/** A finding, unless it is a failed request. */
const LOSS = /^ {2}[^:\n]+: (?!a request failed)/m;
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
    rehearsal = workspace.run(process.execPath, ['test/replicas/run.mjs', ...parameters], cacheVariables(), resolve('.'));
    return (await rehearsal.exited).code;
  };

  const withRelease = isReleaseAvailable();
  const exchange = withRelease ? ', or exchanged with 1.0.0, there and back' : '';
  it(`finds nothing lost or stored twice when replicas are restarted, killed, get new secrets${exchange}, and nothing failed but requests in flight during a kill, or while 1.0.0 stopped`, { ...retryUnless(() => LOSS.test(rehearsal.stdout)), timeout: WITHIN_MS }, async () => {
    if (withRelease) await packRelease();
    const code = await rehearse('--rounds=1', '--pause=400', ...(withRelease ? [`--other=${RELEASE}`] : []));
    expect(code, rehearsal.stdout + rehearsal.stderr).toBe(0);
    const parts = ['SIGTERM', 'kill -9', 'new secrets, SIGTERM', ...(withRelease ? ['another version, SIGTERM', 'another version, kill -9'] : [])];
    for (const part of parts) expect(rehearsal.stdout).toMatch(new RegExp(`^${part} +\\d+ `, 'm'));
  });

  it('refuses to compare this version with itself', async () => {
    const copy = join(workspace.directory, 'copy', 'main.js');
    await mkdir(dirname(copy));
    await copyFile('dist/main.js', copy);
    expect(await rehearse('--only=update', `--other=${copy}`)).toBe(1);
    expect(rehearsal.stderr).toBe(`--other=${copy} has the same code as the build in dist. docs/testing.md shows how to pack another version.\n`);
  });
});
