import { execFile, spawnSync } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { parseEnvironment } from '../../src/configuration/service.js';
import { type Program, ready, Workspace } from '../support/process.js';

const UNIT = 'load-data-service.service';
const HIGHEST_EXPOSURE = 3;
/** How long the service needs to stop besides waiting for requests, as docs/deploying.md says. */
const CLOSING_MS = 3_000;

const STARTED_WITHIN_MS = 120_000;
const UPLOAD = '/ingestHistoricalLoadData/upload_historical?customer_id=c&filename=load.csv&manufacturer=m';
/**
 * Runs a command with the checkout ($0) as its folder, an empty /var/lib/load-data-service, a /tmp of its own, and nothing
 * else in the root file system that can be written.
 */
const MOUNTS = `
mount --bind "$0" /mnt
mount -t tmpfs tmpfs /var/lib
mkdir /var/lib/load-data-service
mount -t tmpfs tmpfs /tmp
mount -o remount,bind,ro /mnt
mount -o remount,bind,ro /
cd /mnt
exec "$@"`;

/** The values of a setting of the unit, in the order of the file. */
async function settings(name: string): Promise<string[]> {
  const unit = await readFile(join('deploy/systemd', UNIT), 'utf8');
  return [...unit.matchAll(new RegExp(`^${name}=(.*)$`, 'gm'))].map(([, value = '']) => value);
}

/** The system calls that the unit allows. */
async function allowedCalls(): Promise<string[]> {
  const { stdout } = await promisify(execFile)('systemd-analyze', ['--no-pager', 'syscall-filter']);
  const sets = new Map(
    stdout.split('\n\n').map((text) => {
      const [name = '', ...entries] = text.split('\n').map((line) => line.trim()).filter((line) => !line.startsWith('#'));
      return [name, entries];
    }),
  );
  const callsOf = (name: string): string[] => sets.get(name)?.flatMap(callsOf) ?? [name];
  const allowed = new Set<string>();
  for (const filter of await settings('SystemCallFilter')) {
    const calls = filter.replace('~', '').split(' ').flatMap(callsOf);
    for (const call of calls) allowed[filter.startsWith('~') ? 'delete' : 'add'](call);
  }
  return [...allowed];
}

/** The variables that the unit sets. */
const variables = async () =>
  Object.fromEntries((await settings('Environment')).join(' ').split(' ').map((text) => text.split('=') as [string, string]));

/** Why the restrictions of the unit can't be imitated on this machine; undefined if they can. */
function missingForRestrictions(): string | undefined {
  if (process.platform !== 'linux' || process.getuid?.() !== 0) return 'this is not root on Linux';
  const programs = ['systemd-analyze', 'strace', 'setpriv', 'unshare'].filter((program) => spawnSync(program, ['--version']).error !== undefined);
  if (programs.length > 0) return `${programs.join(' and ')} is missing`;
  if (spawnSync('unshare', ['--mount', 'mount', '-t', 'tmpfs', 'tmpfs', '/mnt']).status !== 0) return 'nothing can be mounted';
  if (spawnSync('strace', ['-f', '-qq', '--seccomp-bpf', '-e', 'trace=none', 'true']).status !== 0) return 'strace is not allowed to trace';
  return undefined;
}

const missing = missingForRestrictions();
if (missing !== undefined) console.warn(`Left out: the tests of the service under the restrictions of the systemd unit, for ${missing}.`);
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

describe.runIf(missing === undefined)("the systemd unit's restrictions", { timeout: STARTED_WITHIN_MS }, () => {
  let workspace: Workspace;
  beforeEach(async () => {
    workspace = await Workspace.create();
  });
  afterEach(() => workspace.dispose());

  /** Runs Node with the restrictions that can be imitated. Its standard error has each system call that was refused. */
  async function restricted(...parameters: string[]): Promise<Program> {
    const refused = `!${(await allowedCalls()).map((call) => `?${call}`).join()}`;
    const [error = ''] = await settings('SystemCallErrorNumber');
    const rights = ['setpriv', '--no-new-privs', '--bounding-set=-all', '--inh-caps=-all'];
    // With -D, the signals of the test reach Node.
    const filter = ['strace', '-D', '-f', '-qq', '--seccomp-bpf', '-e', `trace=${refused}`, '-e', `inject=${refused}:error=${error}`, '-e', 'signal=none'];
    const { DATA_DIR = '', ...others } = await variables();
    return workspace.run('unshare', ['--mount', '--propagation', 'private', 'sh', '-ec', MOUNTS, resolve('.'), ...rights, ...filter, process.execPath, ...parameters], {
      ...others,
      DATA_DIR: DATA_DIR.replace('%S', '/var/lib'),
    });
  }

  it('are imitated here', async () => {
    const script = `
      const errorOf = (call) => { try { call(); } catch ({ code }) { return code; } };
      const status = fs.readFileSync('/proc/self/status', 'utf8');
      console.log(JSON.stringify([
        errorOf(() => fs.chownSync('/tmp', 0, 0)), errorOf(() => fs.writeFileSync('written', '')), errorOf(() => fs.writeFileSync('/written', '')),
        status.match(/^(CapBnd|CapEff|NoNewPrivs|Seccomp):.*$/gm),
      ]))`;
    const program = await restricted('-e', script);
    expect(await program.exited).toEqual({ code: 0, signal: null });
    const none = '0'.repeat(16);
    expect(JSON.parse(program.stdout)).toEqual(['EPERM', 'EROFS', 'EROFS', [`CapEff:\t${none}`, `CapBnd:\t${none}`, 'NoNewPrivs:\t1', 'Seccomp:\t2']]);
    expect(program.stderr).toMatch(/chown\("\/tmp", 0, 0\) += -1 EPERM .*\(INJECTED\)$/m);
  });

  it('let the service start, store an upload and stop', async () => {
    const [command = ''] = await settings('ExecStart');
    const service = await ready(await restricted(...command.split(' ').slice(1)));
    const answer = await fetch(`${service.url}${UPLOAD}`, { method: 'POST', body: 'a,b', headers: { 'Content-Type': 'text/csv' } });
    expect(answer.status).toBe(200);
    expect((await fetch(`${service.url}/health/ready`)).status).toBe(200);
    expect(await service.program.end('SIGTERM')).toEqual({ code: 0, signal: null });
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
