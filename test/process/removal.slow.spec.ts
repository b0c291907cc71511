import { execFile as execFileWithCallback } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdir, readdir, watch, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { v7 as uuidV7 } from 'uuid';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { DAY_MS } from '../../src/common/durations.js';
import { LocalDiskFileStorage } from '../../src/ingestion/adapters/out/local-disk/local-disk.file-storage.adapter.js';
import { encodeRemovalLines } from '../../src/ingestion/adapters/out/local-disk/stored-uploads/removal-list.js';
import { DataDirectoryView } from '../../src/testing/data-directory.view.js';
import { anUploadDraft, storeUpload } from '../../src/testing/upload-draft.builder.js';
import { type Acknowledged, Load } from '../support/load.js';
import { Workspace } from '../support/process.js';

const execFile = promisify(execFileWithCallback);

let workspace: Workspace;
let view: DataDirectoryView;
beforeEach(async () => {
  workspace = await Workspace.create();
  view = new DataDirectoryView(workspace.data);
});
afterEach(() => workspace.dispose());

async function expectSound(): Promise<void> {
  const { code, stdout } = await workspace.verifyStore(['--json']);
  expect({ code, findings: stdout.split('\n').length - 2 }).toEqual({ code: 0, findings: 0 });
}

/** Fills the store with uploads of several customers, c0 to c4, and stops the service. */
async function fill(uploads = 100): Promise<void> {
  const { program, origin } = await workspace.start({ LOG_LEVEL: 'silent' });
  const load = new Load(origin);
  await load.reached(uploads);
  await program.end('SIGTERM');
  await load.ended();
}

const customerOf = (line: object): string => String((line as { customer_id?: unknown }).customer_id);
const customersOf = async (): Promise<string[]> => [...new Set((await view.lines()).map((line) => customerOf(line)))].sort();

describe('npm run erase', () => {
  it('removes a customer’s uploads before a time, and then all of them, but no others, and refuses a local disk that the service uses', async () => {
    await fill();
    const before = new Date(Date.now() - DAY_MS).toISOString();
    expect((await workspace.erase(['--customer', 'c1', '--before', before])).stdout).toBe('0 uploads were removed.\n');

    const lines = await view.lines();
    const own = lines.filter((line) => customerOf(line) === 'c1').length;

    const dry = await workspace.erase(['--customer', 'c1', '--dry-run']);
    expect({ code: dry.code, stdout: dry.stdout, stderr: dry.stderr }).toEqual({ code: 0, stdout: `${own} uploads would be removed.\n`, stderr: '' });
    expect(await view.lines()).toHaveLength(lines.length);

    const erased = await workspace.erase(['--customer', 'c1', '--json']);
    expect({ code: erased.code, result: JSON.parse(erased.stdout) as unknown }).toEqual({ code: 0, result: { customer_id: 'c1', uploads: own, dry_run: false } });
    expect(await customersOf()).toEqual(['c0', 'c2', 'c3', 'c4']);
    expect(await view.lines()).toHaveLength(lines.length - own);
    expect(await view.files('pending')).toEqual([]);
    await expectSound();

    const { program } = await workspace.start();
    expect(program.lines.filter((line) => line.includes('"level":40'))).toEqual([]);
    const refused = await workspace.erase(['--customer', 'c2']);
    expect({ code: refused.code, stderr: refused.stderr }).toEqual({ code: 2, stderr: expect.stringContaining('DATA_DIR') as string });
  });

  it('completes what a crash interrupted, even with --dry-run', async () => {
    await fill();
    const [segment = ''] = await view.files('uploads');
    const { upload_id: uploadId, content_path: contentPath } = (await view.lines()).find((line) => customerOf(line) === 'c1') as { upload_id: string; content_path: string | null };
    const list = encodeRemovalLines([{ segment, removedAt: new Date().toISOString() }, { uploadId, contentPath, scope: null }]);
    await writeFile(view.at(`pending/${uuidV7()}.removal`), list);
    expect((await workspace.erase(['--customer', 'c2', '--dry-run'])).code).toBe(0);
    expect(JSON.stringify(await view.lines())).not.toContain(uploadId);
    await expectSound();
  });

  it('removes the rest when it is called again after it was killed', async () => {
    await fill(400);
    /** Whether the command was killed before it had ended. */
    const isKilled = async (customer: string): Promise<boolean> => {
      const ending = new AbortController();
      const pending = watch(view.at('pending'), { signal: ending.signal });
      const erasing = workspace.run(process.execPath, [resolve('dist/commands/erase.js'), '--customer', customer], {});
      void erasing.exited.then(() => { ending.abort(); });
      const kill = async () => {
        for await (const { filename } of pending) if (filename?.endsWith('.removal')) erasing.child.kill('SIGKILL');
      };
      await expect(kill()).rejects.toMatchObject({ name: 'AbortError' });
      return (await erasing.exited).signal === 'SIGKILL';
    };
    const left = ['c0', 'c1', 'c2', 'c3', 'c4'];
    let killed: string | undefined;
    while (killed === undefined && left.length > 1) {
      const customer = left.shift() ?? '';
      if (await isKilled(customer)) killed = customer;
    }
    expect(killed).toBeDefined();
    expect((await workspace.erase(['--customer', killed ?? ''])).code).toBe(0);
    expect(await customersOf()).toEqual(left);
    await expectSound();
  });

  it('has a progress line on a terminal, which the result replaces', async () => {
    await (await workspace.start({ LOG_LEVEL: 'silent' })).program.end('SIGTERM');
    const terminal = workspace.onTerminal('erase', '--customer c1', {});
    expect(await terminal.exited).toEqual({ code: 0, signal: null });
    expect(terminal.stdout).toContain('\r\x1b[K0 uploads were removed.\r\n');
  });

  it.each<[string, string[], RegExp]>([
    ['no customer', [], /^--customer must be the id of a customer \(usage: /],
    ['a wrong time', ['--customer', 'c1', '--before', 'yesterday'], /^--before must be a time such as /],
    ['an unknown option', ['--customers', 'c1'], /^Unknown option '--customers'/],
  ])('refuses %s', async (_, parameters, message) => {
    const { code, stdout, stderr } = await workspace.erase(parameters);
    expect({ code, stdout, lines: stderr.split('\n').length }).toEqual({ code: 2, stdout: '', lines: 2 });
    expect(stderr).toMatch(message);
  });

  it.each([
    ['no directory at DATA_DIR', ['--dry-run'], () => undefined],
    ['no directory at DATA_DIR', [], () => undefined],
    ['an empty directory', ['--dry-run'], () => mkdir(workspace.data)],
    ['an empty directory', [], () => mkdir(workspace.data)],
  ])('refuses %s, and changes nothing, with the options %j', async (_, options, prepare) => {
    await prepare();
    const before = await readdir(workspace.directory, { recursive: true });
    const { code, stdout, stderr } = await workspace.erase(['--customer', 'c1', ...options]);
    expect({ code, stdout, lines: stderr.split('\n').length }).toEqual({ code: 2, stdout: '', lines: 2 });
    expect(stderr).toContain(workspace.data);
    expect(await readdir(workspace.directory, { recursive: true })).toEqual(before);
  });
});

/** Resolves to whether the removal was acknowledged. */
async function remove(origin: string, token: string, uploadId: string): Promise<boolean> {
  return (await fetch(`${origin}/uploads/${uploadId}`, { method: 'DELETE', headers: { Authorization: `Bearer ${token}` } })).status === 204;
}

describe('DELETE /uploads/<upload_id>', () => {
  it('leaves each upload whole or gone when the service is killed, and never brings one back', async () => {
    const gone = new Set<string>();
    const begun = new Set<string>();
    const acknowledged: Acknowledged[] = [];
    for (let round = 0; round < 4; round++) {
      const { program, origin } = await workspace.start({ LOG_LEVEL: 'silent' });
      const token = (await workspace.token()).stdout.trim();
      const load = new Load(origin);
      await load.reached(20);
      const removing = (async () => {
        for (let index = 0; ; index++) {
          const { uploadId } = load.acknowledged[index] ?? {};
          if (uploadId === undefined) return;
          begun.add(uploadId);
          if (await remove(origin, token, uploadId)) gone.add(uploadId);
        }
      })().catch(() => undefined);
      await load.reached(60 + 30 * round);
      await program.end('SIGKILL');
      await Promise.all([load.ended(), removing]);
      acknowledged.push(...load.acknowledged);
    }
    const { program } = await workspace.start({ LOG_LEVEL: 'silent' });
    await program.end('SIGTERM');

    await expectSound();
    const lines = new Map((await view.lines()).map((line) => [line.upload_id, line]));
    expect([...gone].filter((id) => lines.has(id))).toEqual([]);
    expect(acknowledged.filter(({ uploadId }) => !begun.has(uploadId) && !lines.has(uploadId))).toEqual([]);
    for (const { uploadId, sha256 } of acknowledged) {
      const line = lines.get(uploadId);
      if (!line || sha256 === null) continue;
      const bytes = await view.bytes(String(line.content_path));
      expect(createHash('sha256').update(bytes ?? '').digest('hex')).toBe(sha256);
    }
    expect(gone.size).toBeGreaterThan(4);
  });
});

/** Copies like an operator, to whom `cp` reports each file that is removed after it was listed. */
async function copy(from: string, to: string): Promise<void> {
  await execFile('cp', ['-a', from, to]).catch((error: unknown) => {
    if (!/^(cp: [^\n]*: No such file or directory\n)+$/.test((error as { readonly stderr?: string }).stderr ?? '')) throw error;
  });
}

describe('a copy of a running service', () => {
  it('has all uploads that it must have, and none that were removed before, if uploads/ was copied before files/', async () => {
    const { program, origin } = await workspace.start({ LOG_LEVEL: 'silent' });
    const token = (await workspace.token()).stdout.trim();
    const load = new Load(origin, 4);
    const begun = new Set<string>();
    const gone = new Set<string>();

    const copies: { path: string; stored: Acknowledged[]; goneBefore: Set<string>; begunAtEnd: Set<string> }[] = [];
    for (const number of [1, 2, 3, 4, 5]) {
      await load.reached(load.acknowledged.length + 50);
      const path = join(workspace.directory, `copy-${number}`);
      await mkdir(path);
      const stored = [...load.acknowledged];
      const goneBefore = new Set(gone);
      const copied = new AbortController();
      const copying = (async () => {
        for (const part of ['uploads', 'files', 'identity']) await copy(join(workspace.data, part), path);
      })().finally(() => { copied.abort(); });
      // Removes every second upload that was stored before the copy, as long as it is made.
      for (const [index, { uploadId }] of stored.entries()) {
        if (copied.signal.aborted) break;
        if (index % 2 !== 0 || begun.has(uploadId)) continue;
        begun.add(uploadId);
        if (await remove(origin, token, uploadId)) gone.add(uploadId);
      }
      await copying;
      copies.push({ path, stored, goneBefore, begunAtEnd: new Set(begun) });
    }
    await program.end('SIGTERM');
    await load.ended();

    for (const { path, stored, goneBefore, begunAtEnd } of copies) {
      const restored = await workspace.start({ LOG_LEVEL: 'silent', DATA_DIR: path });
      await restored.program.end('SIGTERM');
      const found = new DataDirectoryView(path);
      const lines = new Map((await found.lines()).map((line) => [line.upload_id, line]));
      expect([...goneBefore].filter((id) => lines.has(id))).toEqual([]);
      const files = new Set(await found.contentPaths());
      const lacking = [...lines.values()].filter((line) => line.content_path !== null && !files.has(line.content_path) && !begunAtEnd.has(line.upload_id));
      expect(lacking).toEqual([]);
      const expected = stored.filter(({ uploadId }) => !begunAtEnd.has(uploadId));
      expect(expected.length).toBeGreaterThan(20);
      for (const { uploadId, sha256 } of expected) {
        const contentPath = lines.get(uploadId)?.content_path;
        const bytes = sha256 === null ? null : ((await found.bytes(String(contentPath))) ?? '');
        expect([lines.has(uploadId), bytes === null ? null : createHash('sha256').update(bytes).digest('hex')]).toEqual([true, sha256]);
      }
    }
    expect(gone.size).toBeGreaterThan(4);
  });
});

/** Makes a process wait a tenth of a second instead of an hour. */
const SHORT_HOURS = `--import data:text/javascript,${encodeURIComponent('const wait=setTimeout;globalThis.setTimeout=(run,ms,...args)=>wait(run,ms===3600000?100:ms,...args);')}`;

describe('RETENTION_DAYS', () => {
  it('removes the uploads of older days, and says so in one line', async () => {
    const storage = await LocalDiskFileStorage.open({ directory: workspace.data });
    const draftOf = (daysAgo: number) => anUploadDraft().with({ receivedAt: new Date(Date.now() - daysAgo * DAY_MS) }).file(`${daysAgo}`).build();
    const uploads = [];
    for (const daysAgo of [0, 2, 3, 4, 400]) uploads.push(await storeUpload(storage, draftOf(daysAgo)));
    await storage.close();

    const { program } = await workspace.start({ RETENTION_DAYS: '3', NODE_OPTIONS: SHORT_HOURS });
    const removed = await program.line(/Removed 2 uploads/);

    expect(removed).toContain('because RETENTION_DAYS is 3');
    // The markers of the emptied segments stay for some minutes.
    await vi.waitUntil(async () => (await view.files('pending')).every((path) => path.endsWith('.emptied')));
    expect((await view.lines()).map(({ upload_id }) => upload_id).sort()).toEqual(uploads.slice(0, 3).map(({ uploadId }) => uploadId).sort());
    expect(await view.contentPaths()).toHaveLength(3);
    await program.end('SIGTERM');
    await expectSound();
  });
});
