import { copyFile, mkdir, writeFile } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Workspace } from '../support/process.js';

describe('npm run test:versions', () => {
  let workspace: Workspace;
  /** A copy of the build's `main.js`. */
  let copy: string;
  beforeEach(async () => {
    workspace = await Workspace.create();
    copy = join(workspace.directory, 'copy', 'main.js');
    await mkdir(dirname(copy));
    await copyFile('dist/main.js', copy);
  });
  afterEach(() => workspace.dispose());

  const compare = async () => {
    const program = workspace.run(process.execPath, ['test/versions/run.mjs', `--other=${copy}`], {}, resolve('.'));
    const { code } = await program.exited;
    return { code, stderr: program.stderr };
  };

  it('refuses to compare this version with itself, and says so in one line', async () => {
    const stderr = `--other=${copy} has the same code as the build in dist. docs/testing.md shows how to pack another version.\n`;
    expect(await compare()).toEqual({ code: 1, stderr });
  });

  it('starts a version whose code differs', async () => {
    await writeFile(copy, "console.error('The other version was started.'); process.exit(1);\n");
    expect(await compare()).toEqual({ code: 1, stderr: expect.stringContaining('The other version was started.') as string });
  });
});
