import { mkdirSync, readdirSync, readFileSync, rmSync, statSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type ServiceProcess, Workspace } from '../support/process.js';

const UPLOAD = 'ingestHistoricalLoadData/upload_historical?customer_id=c&filename=load.csv&manufacturer=m';
const KEYS = ['a', 'b', 'c'];

describe('the index of keys, damaged after a kill -9', () => {
  let workspace: Workspace;
  /** The service that was started last, for which the keys are known. */
  let service: ServiceProcess;
  let uploads: Awaited<ReturnType<typeof upload>>[];

  beforeAll(async () => {
    workspace = await Workspace.create();
    service = await workspace.start();
    uploads = await Promise.all(KEYS.map((key) => upload(service, key)));
    expect(uploads).toEqual(KEYS.map(() => ({ status: 200, id: expect.any(String) as string, replayed: false })));
  });
  afterAll(() => workspace.dispose());

  const upload = async ({ origin }: ServiceProcess, key: string) => {
    const headers = { 'Content-Type': 'text/csv', 'Idempotency-Key': key };
    const { status, headers: answered } = await fetch(`${origin}/${UPLOAD}`, { method: 'POST', headers, body: `bytes of ${key}` });
    return { status, id: answered.get('X-Upload-Id'), replayed: answered.has('Idempotent-Replayed') };
  };
  const inPlaceOf = (path: string, make: () => void) => {
    rmSync(path, { recursive: true });
    make();
  };

  it.each<[string, (path: string) => void]>([
    ['overwritten', (path) => { writeFileSync(path, Buffer.alloc(statSync(path).size, 'x')); }],
    ['truncated', (path) => { truncateSync(path, 1_000); }],
    ['replaced by a directory', (path) => { inPlaceOf(path, () => { mkdirSync(path); }); }],
    ['replaced by a dangling link', (path) => { inPlaceOf(path, () => { symlinkSync('/nowhere/at/all', path); }); }],
    ['removed', (path) => { rmSync(path); }],
  ])('lets the service boot and replay every key with all files %s', async (_, damage) => {
    await service.program.end('SIGKILL');

    const directory = join(workspace.data, 'idempotency');
    for (const name of readdirSync(directory)) damage(join(directory, name));
    service = await workspace.start();
    expect(await Promise.all(KEYS.map((key) => upload(service, key)))).toEqual(uploads.map((first) => ({ ...first, replayed: true })));
    expect((await fetch(`${service.origin}/health/ready`)).status).toBe(200);
    const segments = readdirSync(join(workspace.data, 'uploads'), { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.ndjson'));
    const lines = segments.flatMap((name) => readFileSync(join(workspace.data, 'uploads', name), 'utf8').trimEnd().split('\n'));
    expect(lines).toHaveLength(KEYS.length);
  });
});
