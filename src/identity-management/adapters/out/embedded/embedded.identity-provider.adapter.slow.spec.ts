import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { EmbeddedIdentityProvider } from './embedded.identity-provider.adapter.js';

describe('EmbeddedIdentityProvider, opened by several processes,', () => {
  let directory: string;
  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'identity-'));
  });
  afterEach(() => rm(directory, { recursive: true }));

  /** Runs a program in a new process. The program's arguments are the path of the built adapter and the data directory. */
  async function run(program: string): Promise<string> {
    const built = resolve('dist/identity-management/adapters/out/embedded/embedded.identity-provider.adapter.js');
    const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', program, built, directory]);
    return stdout;
  }

  async function countUsers(): Promise<number> {
    const provider = await EmbeddedIdentityProvider.open(directory);
    let count = 0;
    for await (const page of provider.listUsers({ signal: new AbortController().signal })) count += page.length;
    await provider.close();
    return count;
  }

  it('lets each e-mail and each role name be used once, whichever process is first', async () => {
    const program = `
      const [module, directory] = process.argv.slice(1);
      const { EmbeddedIdentityProvider } = await import(module);
      const provider = await EmbeddedIdentityProvider.open(directory, { shared: true });
      const options = { signal: new AbortController().signal };
      const refused = {};
      for (let i = 0; i < 200; i++) {
        await provider.createUser({ email: i + '@example.com', name: 'x', roleIds: [] }, options).catch((e) => (refused[e.name] = (refused[e.name] ?? 0) + 1));
        await provider.createRole({ name: 'role ' + i, permissions: ['a:b'] }, options).catch((e) => (refused[e.name] = (refused[e.name] ?? 0) + 1));
      }
      await provider.close();
      console.log(JSON.stringify(refused));`;
    const results = await Promise.all([0, 1, 2].map(() => run(program)));
    const refusals = results.flatMap((stdout) => Object.entries(JSON.parse(stdout) as Record<string, number>));
    const count = (name: string) => refusals.filter(([error]) => error === name).reduce((sum, [, times]) => sum + times, 0);
    expect(count('UserAlreadyExists')).toBe(400);
    expect(count('RoleAlreadyExists')).toBe(400);
    expect(await countUsers()).toBe(200);
  });

  it('is created once by processes that open it at the same time', async () => {
    const program = `
      const [module, directory] = process.argv.slice(1);
      const { EmbeddedIdentityProvider } = await import(module);
      const provider = await EmbeddedIdentityProvider.open(directory, { shared: true });
      await provider.createUser({ email: process.pid + '@example.com', name: 'x', roleIds: [] }, { signal: new AbortController().signal });
      await provider.close();`;
    await Promise.all([0, 1, 2, 3].map(() => run(program)));
    expect(await countUsers()).toBe(4);
  });
});
