import { execFile, execFileSync } from 'node:child_process';
import { resolve } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest';
import { fresh } from '../support/identity-requests.js';
import { ready, type ServiceProcess, Workspace } from '../support/process.js';

const UPLOAD = 'ingestHistoricalLoadData/upload_historical?customer_id=c&filename=load.csv&manufacturer=m';
/** An upload's body that is too large for a journal, so that the service writes it to a new file. */
const LARGE = 'x'.repeat(50_000);
const VOLUME_SIZE = '64m';
const STARTED_WITHIN_MS = 60_000;
const PATIENCE = { timeout: 20_000, interval: 50 };
/** The parameters of `unshare` that give a process its own mount namespace, whose mounts other processes don't see. */
const NAMESPACE = ['--mount', '--propagation', 'private', ...(process.getuid?.() === 0 ? [] : ['--map-root-user'])];

/** The reason why no file system can be mounted on this machine; undefined if one can. */
function missingMounts(): string | undefined {
  try {
    execFileSync('unshare', [...NAMESPACE, 'mount', '-t', 'tmpfs', 'tmpfs', '/mnt'], { stdio: 'pipe' });
    return undefined;
  } catch (error) {
    return (error as Error).message.trim().replaceAll(/\s+/g, ' ');
  }
}

const missing = missingMounts();
if (missing !== undefined) console.warn(`Left out: the tests with mounted volumes. ${missing}`);

describe.runIf(missing === undefined)('DATA_DIR on a volume that', { timeout: STARTED_WITHIN_MS }, () => {
  let workspace: Workspace;
  /** The service that the tests share, because each of them leaves the volume healthy. Undefined after one that failed. */
  let shared: ServiceProcess | undefined;
  let service: ServiceProcess;
  let token: string;

  /** Runs shell commands in the service's mount namespace. `$D` is DATA_DIR. */
  const shell = (script: string) => {
    const enter = ['--mount', '--preserve-credentials', ...(process.getuid?.() === 0 ? [] : ['--user']), '--target', String(service.program.child.pid)];
    return promisify(execFile)('nsenter', [...enter, '--', 'sh', '-ec', script], { env: { ...process.env, D: workspace.data } });
  };
  const upload = async (body = 'bytes') => (await fetch(`${service.origin}/${UPLOAD}`, { method: 'POST', body, headers: { 'Content-Type': 'text/csv' } })).status;
  const createUser = async (name: string) => {
    const headers = { Authorization: `Bearer ${token}`, 'Content-Type': 'application/json' };
    const body = JSON.stringify({ email: `${name}@example.com`, roles: [] });
    return (await fetch(`${service.origin}/idpManagementBackend/create-user`, { method: 'POST', headers, body })).status;
  };
  const readiness = async () => {
    const response = await fetch(`${service.origin}/health/ready`);
    const { details } = (await response.json()) as { details: Record<string, { status: string }> };
    return { status: response.status, down: Object.keys(details).filter((name) => details[name]?.status !== 'up').sort() };
  };

  beforeEach(async () => {
    if (shared !== undefined) {
      service = shared;
      return;
    }
    workspace = await Workspace.create();
    const script = `mkdir "$DATA_DIR"; mount -t tmpfs -o size=${VOLUME_SIZE} tmpfs "$DATA_DIR"; exec "$0" "$1"`;
    service = shared = await ready(workspace.run('unshare', [...NAMESPACE, 'sh', '-ec', script, process.execPath, resolve('dist/main.js')], { RATE_LIMIT_PER_MINUTE: '0' }));
    const { stdout: secret } = await shell('cat "$D/identity/admin-secret"');
    const answer = await fetch(`${service.origin}/idp/token`, {
      method: 'POST',
      headers: { Authorization: `Basic ${Buffer.from(`admin:${secret.trim()}`).toString('base64')}` },
      body: new URLSearchParams({ grant_type: 'client_credentials' }),
    });
    ({ access_token: token } = (await answer.json()) as { access_token: string });
  }, STARTED_WITHIN_MS);
  afterEach(async ({ task }) => {
    if (task.result?.state !== 'fail') return;
    shared = undefined;
    await workspace.dispose();
  });
  afterAll(() => workspace.dispose());

  // Shell commands that mount the volume at a second path too. This keeps the volume while it isn't mounted at
  // DATA_DIR.
  const KEPT = 'mkdir "$D-kept"; mount --bind "$D" "$D-kept"';

  it.each<[string, string, string]>([
    ['is unmounted while in use', `${KEPT}; umount -l "$D"`, 'mount --bind "$D-kept" "$D"'],
    ['is covered by another volume', 'mount -t tmpfs tmpfs "$D"', 'umount "$D"'],
    ['has another volume over its uploads and identity', 'for part in uploads identity; do mount -t tmpfs tmpfs "$D/$part"; done', 'umount "$D/uploads" "$D/identity"'],
    ['is full', 'cat /dev/zero > "$D/ballast" 2>&- || :', 'rm "$D/ballast"'],
  ])('%s: no upload is acknowledged until the fault is over', async (_, harm, mend) => {
    const lines = async () => Number((await shell('cat "$D"/uploads/*/*/*.ndjson | wc -l')).stdout);
    const [before, bob] = [await lines(), fresh()];
    expect([await upload(), await createUser(fresh())]).toEqual([200, 201]);
    await shell(harm);
    expect([await upload(), await createUser(bob)]).toEqual([500, 503]);
    await expect.poll(readiness, PATIENCE).toEqual({ status: 503, down: ['file_storage', 'identity_provider'] });
    expect([await upload(), await createUser(bob)]).toEqual([500, 503]);
    await shell(mend);
    await expect.poll(readiness, PATIENCE).toEqual({ status: 200, down: [] });
    expect([await upload(), await createUser(bob)]).toEqual([200, 201]);
    expect(await lines()).toBe(before + 2);
  });

  it('is filled by uploads: they can be removed, and then it takes uploads again', async () => {
    // Uploads are refused by an estimate until the space is measured again, and then some more may fit.
    const fill = async () => {
      for (const body of ['x'.repeat(4 * 1024 * 1024), LARGE, 'bytes']) while ((await upload(body)) === 200);
      return readiness();
    };
    await expect.poll(fill, PATIENCE).toEqual({ status: 503, down: ['file_storage'] });
    const removal = await fetch(`${service.origin}/uploads?customer_id=c`, { method: 'DELETE', headers: { Authorization: `Bearer ${token}` } });
    expect(removal.status).toBe(200);
    await expect.poll(readiness, PATIENCE).toEqual({ status: 200, down: [] });
    expect(await upload()).toBe(200);
  });

  it('has a separate volume for the files of a kind, which is unmounted: nothing is written below it', async () => {
    const kind = '"$DATA_DIR/files/kind=historical"';
    const script = `mkdir -p ${kind} "$DATA_DIR-kept"; mount -t tmpfs tmpfs ${kind}; mount --bind ${kind} "$DATA_DIR-kept"; exec "$0" "$1"`;
    const variables = { RATE_LIMIT_PER_MINUTE: '0', DATA_DIR: `${workspace.data}-other` };
    service = await ready(workspace.run('unshare', [...NAMESPACE, 'sh', '-ec', script, process.execPath, resolve('dist/main.js')], variables));
    expect([await upload(), await upload(LARGE)]).toEqual([200, 200]);
    await shell('umount -l "$D-other/files/kind=historical"');
    expect(await upload()).toBe(500);
    await expect.poll(readiness, PATIENCE).toEqual({ status: 503, down: ['file_storage'] });
    expect(await upload()).toBe(500);
    expect((await shell('find "$D-other/files" -type f')).stdout).toBe('');
    await shell('mount --bind "$D-other-kept" "$D-other/files/kind=historical"');
    await expect.poll(readiness, PATIENCE).toEqual({ status: 200, down: [] });
    expect(await upload()).toBe(200);
    expect((await shell('find "$D-other-kept" -type f')).stdout.trim().split('\n')).toHaveLength(3);
  });

  it.each([
    ['files/kind=historical/customer_id=c', [500, 500], 200],
    ['uploads/kind=historical/date=$(date -u +%F)', [500, 500], 503],
  ])('has another volume mounted over %s: no upload to it is acknowledged', async (path, statuses, status) => {
    expect(await upload()).toBe(200);
    await shell(`mount -t tmpfs tmpfs "$D/${path}"; mkdir -p "$D/${path}/date=$(date -u +%F)"`);
    expect([await upload(), await upload(LARGE)]).toEqual(statuses);
    await expect.poll(async () => (await readiness()).status, PATIENCE).toBe(status);
    expect((await shell(`find "$D/${path}" -type f`)).stdout).toBe('');
    await shell(`umount "$D/${path}"`);
    await expect.poll(async () => (await readiness()).status, PATIENCE).toBe(200);
    expect([await upload(), await upload(LARGE)]).toEqual([200, 200]);
  });

  it('is read-only at the start: one line names the path, the cause and the remedy', async () => {
    const script = 'mkdir "$DATA_DIR"; mount -t tmpfs -o ro tmpfs "$DATA_DIR"; exec "$0" "$1"';
    const program = workspace.run('unshare', [...NAMESPACE, 'sh', '-ec', script, process.execPath, resolve('dist/main.js')], { DATA_DIR: `${workspace.data}-ro` });
    const { code } = await program.exited;
    expect(code).toBe(1);
    expect(program.stderr.trimEnd()).toMatch(/^DATA_DIR: (?=.*EROFS)(?=.*-ro).*: mount it for writing, or set DATA_DIR to a directory that can be written$/);
  });

  it('has a read-only idempotency/: the service is not ready, and reports why', async () => {
    await shell('mkdir -p "$D/idempotency"; mount --bind "$D/idempotency" "$D/idempotency"; mount -o remount,bind,ro "$D/idempotency"');
    await expect.poll(readiness, PATIENCE).toEqual({ status: 503, down: ['file_storage'] });
    const reports = () => service.program.lines.filter((line) => line.includes(`${workspace.data}/idempotency can't be written`) && line.includes('mount it for writing'));
    // The service may write the log line after it has answered the readiness check.
    await expect.poll(reports, PATIENCE).toHaveLength(1);
    await shell('umount "$D/idempotency"');
    await expect.poll(readiness, PATIENCE).toEqual({ status: 200, down: [] });
  });

  // Only the path becomes read-only, by a second mount over it: a volume can't be remounted read-only while files are
  // open for writing. So the files that the service has already opened stay writable.
  it('is read-only at its path: requests that need a new file are refused until it is writable again', async () => {
    await shell('mount --bind "$D" "$D"; mount -o remount,bind,ro "$D"');
    expect(await upload(LARGE)).toBe(500);
    await expect.poll(readiness, PATIENCE).toMatchObject({ status: 503, down: expect.arrayContaining(['file_storage']) as string[] });
    expect(await upload()).toBe(500);
    await shell('umount "$D"');
    await expect.poll(readiness, PATIENCE).toEqual({ status: 200, down: [] });
    expect(await upload(LARGE)).toBe(200);
  });
});
