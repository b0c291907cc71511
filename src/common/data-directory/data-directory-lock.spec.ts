import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, readdir, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { DataDirectoryInUseError, isLocked, lockDataDirectory } from './data-directory-lock.js';

// A program that takes a lock with the same SQL statements as `lockDataDirectory`. It is in plain JavaScript, because a
// child process can't import TypeScript.
const HOLDER = `
  import Database from 'libsql';
  const database = new Database(process.argv[1]);
  database.exec('PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE');
  process.stdout.write('held');
  setInterval(() => database.inTransaction, 60_000);
`;

async function holdElsewhere(file: string): Promise<ChildProcess> {
  const child = spawn(process.execPath, ['--input-type=module', '--eval', HOLDER, file], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  await once(child.stdout, 'data');
  return child;
}

async function kill(child: ChildProcess): Promise<void> {
  const gone = once(child, 'exit');
  child.kill('SIGKILL');
  await gone;
}

describe('data directory lock', () => {
  let base: string;
  let directory: string;

  beforeEach(async () => {
    base = await mkdtemp(join(tmpdir(), 'lock-'));
    directory = join(base, 'data');
  });
  afterEach(() => rm(base, { recursive: true }));

  it('creates the directory, and leaves nothing in it except the lock', async () => {
    const lock = await lockDataDirectory(join(directory, 'deeper'), 'uploads');
    expect(await readdir(join(directory, 'deeper'))).toEqual(['uploads.lock']);
    lock.release();
  });

  it('refuses a second holder with one line that names the directory as given', async () => {
    const lock = await lockDataDirectory(directory, 'uploads');
    const given = `${directory}/../data`;
    const refusal = lockDataDirectory(given, 'uploads');
    await expect(refusal).rejects.toThrow(DataDirectoryInUseError);
    await expect(refusal).rejects.toThrow(new RegExp(`^DATA_DIR ${given} is in use by another process.*: stop it.*, or set DATA_DIR to another directory$`));
    lock.release();
  });

  it('is free after its release, even if released repeatedly', async () => {
    const lock = await lockDataDirectory(directory, 'uploads');
    lock.release();
    lock.release();
    (await lockDataDirectory(directory, 'uploads')).release();
  });

  it('waits for a holder that releases it within a moment', async () => {
    const lock = await lockDataDirectory(directory, 'uploads');
    const waiting = lockDataDirectory(directory, 'uploads');
    setImmediate(() => {
      lock.release();
    });
    (await waiting).release();
  });

  it('is independent of other locks in the same directory', async () => {
    const uploads = await lockDataDirectory(directory, 'uploads');
    const identity = await lockDataDirectory(directory, 'identity');
    uploads.release();
    identity.release();
  });

  it('excludes other processes, even through a link, and ends with its process on SIGKILL', async () => {
    const link = join(base, 'link');
    (await lockDataDirectory(directory, 'uploads')).release();
    await symlink(directory, link);
    const child = await holdElsewhere(join(directory, 'uploads.lock'));

    await expect(lockDataDirectory(directory, 'uploads')).rejects.toThrow(DataDirectoryInUseError);
    // Only Linux shows which process holds a lock. Elsewhere, the error advises to find the process with `lsof`.
    const holder = process.platform === 'linux' ? `(pid ${String(child.pid)}): stop it` : 'lsof';
    await expect(lockDataDirectory(directory, 'uploads')).rejects.toThrow(holder);
    await expect(lockDataDirectory(link, 'uploads')).rejects.toThrow(`DATA_DIR ${link} is in use`);
    expect(isLocked(link, 'uploads')).toBe(true);

    await kill(child);
    expect(isLocked(link, 'uploads')).toBe(false);
    (await lockDataDirectory(link, 'uploads')).release();
  });

  it('is seen by a probe, which neither takes the lock nor creates anything', async () => {
    expect(isLocked(directory, 'uploads')).toBe(false);
    expect(existsSync(directory)).toBe(false);

    const lock = await lockDataDirectory(directory, 'uploads');
    expect(isLocked(directory, 'uploads')).toBe(true);
    expect(isLocked(directory, 'uploads')).toBe(true);
    await expect(lockDataDirectory(directory, 'uploads')).rejects.toThrow(DataDirectoryInUseError);
    lock.release();

    expect(isLocked(directory, 'uploads')).toBe(false);
    (await lockDataDirectory(directory, 'uploads')).release();
  });

  it('throws the error of the file system when the lock cannot be created', async () => {
    await expect(lockDataDirectory('/dev/null/data', 'uploads')).rejects.toThrow('ENOTDIR');
  });
});
