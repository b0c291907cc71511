import { resolve } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { isReleaseAvailable, packRelease, RELEASE } from '../servers/release-1.0.0.mjs';
import { cacheVariables, type Program, Workspace } from '../support/process.js';
import { retryUnless } from '../support/retries.js';

const FINDINGS = /^\d+ findings$/m;
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

  it('exchange one DATA_DIR, there and back, and nothing is lost', { ...retryUnless(() => FINDINGS.test(rehearsal?.stdout ?? '')), timeout: WITHIN_MS }, async () => {
    rehearsal = workspace.run(process.execPath, ['test/versions/run.mjs', '--rounds=1', `--other=${RELEASE}`], cacheVariables(), resolve('.'));
    const { code } = await rehearsal.exited;
    expect(code, rehearsal.stdout + rehearsal.stderr).toBe(0);
  });
});
