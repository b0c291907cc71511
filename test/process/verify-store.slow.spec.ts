import { readdir, readFile, rm, stat, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { DataDirectoryView } from '../../src/testing/data-directory.view.js';
import { Load } from '../support/load.js';
import { type ServiceProcess, Workspace } from '../support/process.js';

interface Summary {
  readonly uploads: number;
  readonly files: number;
  readonly bytes: number;
  readonly defects: number;
  readonly under_way: number;
  readonly unknown: number;
}

describe('npm run verify:store', () => {
  let workspace: Workspace;

  beforeEach(async () => {
    workspace = await Workspace.create();
  });
  afterEach(() => workspace.dispose());

  it('shows its progress on a terminal, and then the result', async () => {
    const { program, url } = await workspace.start({ LOG_LEVEL: 'silent' });
    const query = 'customer_id=a&filename=zeros.bin&manufacturer=m';
    await fetch(`${url}/ingestHistoricalLoadData/upload_historical?${query}`, { method: 'POST', headers: { 'Content-Type': 'text/csv' }, body: 'x' });
    await program.end('SIGTERM');
    // Replaces the upload's file by one of 1 GiB of zeros. This file is sparse, so it takes no space on the disk, but
    // it takes time to read.
    const [segment = ''] = (await readdir(join(workspace.data, 'uploads'), { recursive: true })).filter((name) => name.endsWith('.ndjson'));
    const path = join(workspace.data, 'uploads', segment);
    const line = JSON.parse(await readFile(path, 'utf8')) as { content_path: string };
    await truncate(join(workspace.data, line.content_path), 0);
    await truncate(join(workspace.data, line.content_path), 2 ** 30);
    const content = { content_size: 2 ** 30, content_sha256: '49bc20df15e412a64472421e13fe86ff1c5165e18b2afccf160d4dc19fe68a14' };
    await writeFile(path, `${JSON.stringify({ ...line, ...content })}\n`);
    const terminal = workspace.onTerminal('verify-store', workspace.data, {});
    expect(await terminal.exited).toEqual({ code: 0, signal: null });
    expect(terminal.stdout).toMatch(/\] 100 % checking uploads \(1 uploads, 1 files, \d+ MiB, 0 defects\)/);
    const [erased, output] = ['\r\x1b[K', '1 upload, 1 file, 1,073,741,824 bytes, 0 defects\r\n'];
    expect(terminal.stdout.endsWith(`${erased}${output}${erased}`)).toBe(true);
  });

  it.each<[string, string[], Record<string, string>, RegExp]>([
    ['the directory does not exist', ['nowhere'], {}, /^nowhere: ENOENT.*\n$/],
    ['the directory is not a store', ['.'], {}, /^\.: it has neither uploads\/ nor files\/\n$/],
    ['the directory is empty', [''], {}, /^the directory is empty \(usage: .*\)\n$/],
    ['there are two directories', ['a', 'b'], {}, /^only one directory can be given \(usage: .*\)\n$/],
    ['an option is unknown', ['--all'], {}, /^Unknown option '--all'.*\(usage: .*\)\n$/],
    ['the environment is wrong', [], { PORT: 'x' }, /^PORT: .*\n$/],
  ])('ends with 2 when %s', async (_, parameters, variables, message) => {
    const { code, stdout, stderr } = await workspace.verifyStore(parameters, variables);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toMatch(message);
  });

  it('prints its usage', async () => {
    const { code, stdout, stderr } = await workspace.verifyStore(['--help']);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).toContain('[--json] [<directory>]');
  });
});

// Each test goes on with the store that the test before it leaves.
describe('npm run verify:store, on the store of a service under load,', () => {
  let workspace: Workspace;
  let service: ServiceProcess;
  let load: Load;
  /** The files that the last test damages, even if it is repeated. */
  let files: readonly string[] | undefined;

  beforeAll(async () => {
    workspace = await Workspace.create();
    service = await workspace.start({ LOG_LEVEL: 'silent' });
    load = new Load(service.origin);
  });
  afterAll(() => workspace.dispose());

  async function summary(parameters: readonly string[] = [], variables: Record<string, string> = {}) {
    const { code, stdout, stderr, lines } = await workspace.verifyStore(['--json', ...parameters], variables);
    expect(stdout.endsWith('\n')).toBe(true);
    const objects = lines.map((line) => JSON.parse(line) as Record<string, unknown>);
    const { summary } = objects.pop() as unknown as { summary: Summary };
    return { code, stderr, findings: objects, summary };
  }

  it('finds no defect while the service accepts uploads', async () => {
    for (let round = 1; round <= 3; round++) {
      await load.reached(round * 40);
      const before = load.acknowledged.length;
      const { code, stderr, findings, summary: found } = await summary();
      expect({ code, stderr, defects: findings.filter(({ state }) => state !== 'under-way') }).toEqual({ code: 0, stderr: '', defects: [] });
      expect(found.uploads).toBeGreaterThanOrEqual(before);
    }
  });

  it('changes nothing, and accepts another directory, for which it needs no environment', async () => {
    await service.program.end('SIGKILL');
    await load.ended();
    const names = await readdir(workspace.data, { recursive: true });
    const look = (): Promise<unknown> =>
      Promise.all(names.map(async (name) => [name, await stat(join(workspace.data, name)).then(({ mtimeMs, ctimeMs, size }) => [mtimeMs, ctimeMs, size], () => 'no file')]));
    const before = await look();
    expect(await summary([workspace.data], { DATA_DIR: '/nowhere', PORT: 'x' })).toMatchObject({ code: 0, stderr: '' });
    expect(await look()).toEqual(before);
    expect((await readdir(workspace.data, { recursive: true })).sort()).toEqual(names.sort());
  });

  it('reports what a crash left as no defect, before and after the next boot', async () => {
    expect((await summary()).code).toBe(0);
    service = await workspace.start();
    const { code, findings, summary: found } = await summary();
    expect({ code, findings }).toEqual({ code: 0, findings: [] });
    expect(found.uploads).toBeGreaterThanOrEqual(load.acknowledged.length);
  });

  it('ends with 1 and names each defect, even while the service runs', async () => {
    const view = new DataDirectoryView(workspace.data);
    files ??= await view.contentPaths();
    const [lost = '', cut = ''] = files;
    await rm(view.at(lost), { force: true });
    await writeFile(view.at(cut), '');
    for (const end of [() => service.program.end('SIGTERM'), () => undefined]) {
      const { code, findings, summary: found } = await summary();
      expect({ code, defects: found.defects }).toEqual({ code: 1, defects: 2 });
      expect(findings.map(({ state, kind, path }) => ({ state, kind, path }))).toEqual(
        expect.arrayContaining([
          { state: 'defect', kind: 'bytes-absent', path: lost },
          { state: 'defect', kind: 'bytes-size', path: cut },
        ]),
      );
      const { code: again, lines } = await workspace.verifyStore();
      expect(again).toBe(1);
      expect(lines.slice(0, -1).sort()).toEqual([`${lost}: the file is absent`, expect.stringContaining(`${cut}: the file has 0 bytes, its line says `)]);
      expect(lines.at(-1)).toMatch(/^\d+ uploads, \d+ files, [\d,]+ bytes, 2 defects$/);
      await end();
    }
  });
});
