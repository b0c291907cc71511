import { execFile, spawnSync } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parseEnvironment } from '../../src/configuration/service.js';
import { ready, Workspace } from '../support/process.js';

const UNIT = 'load-data-service.service';
const HIGHEST_EXPOSURE = 3;
/** How long the service needs to stop besides waiting for requests, as docs/deploying.md says. */
const CLOSING_MS = 3_000;

/** The values of a setting of the unit, in the order of the file. */
async function settings(name: string): Promise<string[]> {
  const unit = await readFile(join('deploy/systemd', UNIT), 'utf8');
  return [...unit.matchAll(new RegExp(`^${name}=(.*)$`, 'gm'))].map(([, value = '']) => value);
}

/** The variables that the unit sets. */
const variables = async () =>
  Object.fromEntries((await settings('Environment')).join(' ').split(' ').map((text) => text.split('=') as [string, string]));

const isMissing = spawnSync('systemd-analyze', ['--version']).error !== undefined;
if (isMissing) console.warn('Left out: the tests of the systemd unit with systemd-analyze, which is missing.');

describe.runIf(!isMissing)('the systemd unit', () => {
  let directory: string;
  const analyze = (...parameters: string[]) => promisify(execFile)('systemd-analyze', ['--no-pager', ...parameters]);

  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'load-data-unit-'));
    const unit = await readFile(join('deploy/systemd', UNIT), 'utf8');
    // systemd looks for Node in some folders only, which may not be those of this machine.
    await writeFile(join(directory, UNIT), unit.replace('ExecStart=node ', `ExecStart=${process.execPath} `));
  });
  afterAll(() => rm(directory, { recursive: true, force: true }));

  it('is valid', async () => {
    expect(await analyze('verify', join(directory, UNIT))).toEqual({ stdout: '', stderr: '' });
  });

  it(`has an exposure below ${HIGHEST_EXPOSURE}`, async () => {
    // systemd-analyze fails if the exposure, times ten, is above the threshold.
    const { stdout } = await analyze('security', '--offline=true', `--threshold=${HIGHEST_EXPOSURE * 10 - 1}`, join(directory, UNIT));
    expect(stdout).toMatch(/Overall exposure level for .* [0-2]\.\d /);
  });

  it('has the exposure that docs/deploying.md says, by the same version of systemd', async (context) => {
    const [, documented, exposure] = /of systemd (\d+) rates its exposure (\d\.\d) of 10/.exec(await readFile('docs/deploying.md', 'utf8')) ?? [];
    expect(documented).toBeDefined();
    const [, installed] = /^systemd (\d+) /.exec((await analyze('--version')).stdout) ?? [];
    if (installed !== documented) context.skip(`systemd ${installed} is installed`);
    const { stdout } = await analyze('security', '--offline=true', join(directory, UNIT));
    expect(/Overall exposure level for .* (\d\.\d) /.exec(stdout)?.[1]).toBe(exposure);
  });
});

describe("the systemd unit's settings", () => {
  it('let requests in flight end', async () => {
    const [seconds = ''] = await settings('TimeoutStopSec');
    const { shutdownDelayMs, shutdownTimeoutMs } = parseEnvironment({});
    expect(Number(seconds) * 1_000).toBeGreaterThanOrEqual(shutdownDelayMs + shutdownTimeoutMs + CLOSING_MS);
  });

  it('set as many threads as `npm run start:prod` and the image do', async () => {
    const { scripts } = JSON.parse(await readFile('package.json', 'utf8')) as { scripts: Record<string, string> };
    const { UV_THREADPOOL_SIZE: threads } = await variables();
    expect(scripts['start:prod']).toContain(`UV_THREADPOOL_SIZE:-${String(threads)}}`);
    expect(await readFile('Dockerfile', 'utf8')).toContain(`UV_THREADPOOL_SIZE=${String(threads)}\n`);
  });

  it('start the service', async () => {
    const workspace = await Workspace.create();
    try {
      const { DATA_DIR, ...others } = await variables();
      const [command = ''] = await settings('ExecStart');
      const [program = '', ...parameters] = command.split(' ');
      const service = await ready(workspace.run(program, parameters, others, resolve('.')));
      expect(DATA_DIR).toBe(`%S/${(await settings('StateDirectory')).join()}`);
      expect((await fetch(`${service.url}/health/ready`)).status).toBe(200);
      expect(await service.program.end('SIGTERM')).toEqual({ code: 0, signal: null });
    } finally {
      await workspace.dispose();
    }
  });
});
