import { spawnSync } from 'node:child_process';
import { expect, it } from 'vitest';

it('no request runs more files or functions of the service than its goal in bench/walk.mjs', () => {
  const { status, stdout, stderr } = spawnSync(process.execPath, ['bench/run.mjs', 'walk'], { encoding: 'utf8' });
  expect(stdout).toMatch(/403 without a token.*ok/);
  expect({ status, stderr }, stdout).toEqual({ status: 0, stderr: '' });
});
