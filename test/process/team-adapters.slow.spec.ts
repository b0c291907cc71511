import { rm, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import ts from 'typescript';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { packageDirectory } from '../support/package-directory.js';
import { type Program, ready, Workspace } from '../support/process.js';

const UNENDING = `
  import { InMemoryFileStorage } from 'load-data-service/testing';
  export default { create: () => Object.assign(new InMemoryFileStorage(), { onApplicationShutdown: () => new Promise(() => {}) }) };`;

describe("a team's adapter", () => {
  let workspace: Workspace;
  let directory: string;
  beforeAll(async () => {
    workspace = await Workspace.create();
    directory = resolve(await packageDirectory('adapters'));
  });
  afterAll(async () => {
    await workspace.dispose();
    await rm(directory, { recursive: true });
  });

  async function launch(file: string, code: string): Promise<Program> {
    await writeFile(join(directory, file), code);
    return workspace.run(process.execPath, [resolve('dist/main.js')], { FILE_STORAGE: `module:./${file}` }, directory);
  }

  it('does not keep the service from ending if it never closes, and the log says so', async () => {
    const { program } = await ready(await launch('unending.js', UNENDING));
    expect(await program.end('SIGTERM')).toEqual({ code: 0, signal: null });
    expect(program.lines.filter((line) => line.includes('Closing took longer than 2000 ms.'))).toHaveLength(1);
  });

  // Vitest imports CommonJS modules in another way than Node.js.
  it('may be the default export of a CommonJS module, as TypeScript compiles it', async () => {
    const { outputText } = ts.transpileModule('export default { create: () => ({ store() {} }) };', { compilerOptions: { module: ts.ModuleKind.CommonJS } });
    const program = await launch('half.cjs', outputText);
    expect(await program.exited).toEqual({ code: 1, signal: null });
    expect(program.stderr).toMatch(/^FILE_STORAGE: the adapter of .*half\.cjs has no method "checkHealth"/);
  });
});
