import { resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { isReleaseAvailable, packRelease, RELEASE } from '../servers/release-1.0.0.mjs';
import { cacheVariables, Workspace } from '../support/process.js';

const WITHIN_MS = 600_000;

describe.runIf(isReleaseAvailable())('npm run test:versions', () => {
  let workspace: Workspace;
  beforeAll(async () => {
    await packRelease();
    workspace = await Workspace.create();
  }, WITHIN_MS);
  afterAll(() => workspace.dispose());

  it('goes from 1.0.0 to this version and back on one DATA_DIR, and loses nothing', async () => {
    const program = workspace.run(process.execPath, ['test/versions/run.mjs', '--rounds=1', `--other=${RELEASE}`], cacheVariables(), resolve('.'));
    const { code } = await program.exited;
    expect(code, program.stdout + program.stderr).toBe(0);
  }, WITHIN_MS);
});
