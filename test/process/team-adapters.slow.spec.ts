import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { expect, it } from 'vitest';
import { ready, Workspace } from '../support/process.js';

const UNENDING = `
  import { InMemoryFileStorage } from 'load-data-service/testing';
  export default { create: () => Object.assign(new InMemoryFileStorage(), { onApplicationShutdown: () => new Promise(() => {}) }) };`;

it("a team's adapter does not keep the service from ending if it never closes, and the log says so", async () => {
  const workspace = await Workspace.create();
  // A directory in the package, so that imports of `load-data-service` resolve to the build.
  await mkdir('coverage', { recursive: true });
  const directory = resolve(await mkdtemp('coverage/adapters-'));
  try {
    await writeFile(join(directory, 'unending.js'), UNENDING);
    const { program } = await ready(workspace.run(process.execPath, [resolve('dist/main.js')], { FILE_STORAGE: 'module:./unending.js' }, directory));
    expect(await program.end('SIGTERM')).toEqual({ code: 0, signal: null });
    expect(program.lines.filter((line) => line.includes('Closing took longer than 2000 ms.'))).toHaveLength(1);
  } finally {
    await workspace.dispose();
    await rm(directory, { recursive: true });
  }
});
