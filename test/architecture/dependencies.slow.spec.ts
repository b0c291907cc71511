import { spawnSync } from 'node:child_process';
import { cp, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

const FILES = ['package.json', 'package-lock.json', 'README.md', 'CONTRIBUTING.md'];

let copy: string;
beforeAll(async () => {
  copy = await mkdtemp(join(tmpdir(), 'dependencies-'));
  await symlink(resolve('node_modules'), join(copy, 'node_modules'));
});
afterAll(() => rm(copy, { recursive: true }));

async function check(file?: string, change: (text: string) => string = (text) => text): Promise<{ status: number | null; stderr: string }> {
  for (const name of FILES) await cp(name, join(copy, name));
  if (file !== undefined) {
    const before = await readFile(file, 'utf8');
    const after = change(before);
    expect(after).not.toBe(before);
    await writeFile(join(copy, file), after);
  }
  const { status, stderr } = spawnSync(process.execPath, ['test/dependencies.mjs', copy], { encoding: 'utf8' });
  return { status, stderr };
}

/** Returns a function that changes the entry of one package in the text of a package-lock.json. */
const inLock =
  (path: string, change: Readonly<Record<string, unknown>>) =>
  (text: string): string => {
    const lock = JSON.parse(text) as { packages: Record<string, object> };
    lock.packages[path] = { ...lock.packages[path], ...change };
    return JSON.stringify(lock);
  };

describe('the check of dependencies of npm run lint', () => {
  it('passes the current dependencies', async () => {
    expect(await check()).toEqual({ status: 0, stderr: '' });
  });

  it.each([
    ['a licence that is not allowed', 'package-lock.json', inLock('node_modules/streamsearch', { license: 'GPL-3.0-only' }), /^streamsearch@[\d.]+: the licence GPL-3.0-only/m],
    ['no licence', 'package-lock.json', inLock('node_modules/pause', { version: '0.1.0' }), /^pause@0\.1\.0: the licence \(none\)/m],
    ['a deprecated package', 'package-lock.json', inLock('node_modules/glob', { deprecated: 'old' }), /^glob@[\d.]+: deprecated: old$/m],
    ['an installation script', 'package-lock.json', inLock('node_modules/pino', { hasInstallScript: true }), /^pino@[\d.]+: runs a script/m],
    ['an allowed installation script', 'package.json', (text) => text.replace('"@scarf/scarf": false', '"@scarf/scarf": true'), /^@scarf\/scarf@[\d.]+: runs a script/m],
    ['a newer Node', 'package-lock.json', inLock('node_modules/zod', { engines: { node: '>=22' } }), /^zod@[\d.]+: needs Node >=22, not 20\.19\.0$/m],
    ['a missing row', 'README.md', (text) => text.replace(/^\| `zod` .*\n/m, ''), /^README\.md: no row for zod of dependencies$/m],
    ['an extra row', 'CONTRIBUTING.md', (text) => `${text}| \`left-pad\` | MIT | a pad |\n`, /^CONTRIBUTING\.md: left-pad is not in devDependencies$/m],
    ['a wrong licence in a row', 'README.md', (text) => text.replace('| `zod` | MIT |', '| `zod` | ISC |'), /^README\.md: the licence of zod is MIT$/m],
    ['a locked version outside the range', 'package-lock.json', inLock('node_modules/rxjs', { version: '6.0.0' }), /^package-lock\.json: rxjs@6\.0\.0 is not in the range /m],
    ['a peer that is installed for development alone', 'package.json', (text) => text.replace('"peerDependencies": {', '"peerDependencies": { "semver": "7",'), /^package\.json: semver is in peerDependencies and in devDependencies$/m],
    ['a range of versions', 'package.json', (text) => text.replace('"zod": "', '"zod": "^'), /^package\.json: the version of zod is not exact$/m],
  ] as [string, string, (text: string) => string, RegExp][])('refuses %s', async (_name, file, change, problem) => {
    const { status, stderr } = await check(file, change);
    expect(stderr).toMatch(problem);
    expect(stderr.trim().split('\n')).toHaveLength(1);
    expect(status).toBe(1);
  });
});
