import { resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { installNode } from '../servers/runtimes.mjs';
import { Workspace } from '../support/process.js';

/** The version of Node on which `npm test` has passed already, if there is one. Then it isn't run on this version again. */
const { TESTED_NODE } = process.env;
if (TESTED_NODE !== undefined) console.log(`npm test has run on Node ${TESTED_NODE} already.`);

/** The oldest and the newest version that is supported run all tests. A difference between two versions shows on one of these. */
const WITH_ALL_TESTS = ['20.19.2', '26.10.0'];

let workspace: Workspace;
beforeAll(async () => {
  workspace = await Workspace.create();
});
afterAll(() => workspace.dispose());

describe.each(['20.19.2', '24.21.0', '26.10.0'])('Node %s', (version) => {
  it.runIf(WITH_ALL_TESTS.includes(version) && version !== TESTED_NODE)('passes npm test', async () => {
    const node = await installNode(version);
    const home = { HOME: process.env.HOME ?? '', NO_COLOR: '1', TEST_RETRIES: process.env.TEST_RETRIES ?? '0' };
    const tests = workspace.run(node, ['node_modules/vitest/vitest.mjs', 'run', '--config', 'vitest.node-versions.config.ts'], home, resolve('.'));
    const { code } = await tests.exited;
    expect(code, tests.stdout + tests.stderr).toBe(0);
    expect(tests.stdout).toMatch(/Tests +\d{4,} passed/);
  }, 1_800_000);

  it('serves without a warning', async () => {
    const service = workspace.run(await installNode(version), ['--trace-warnings', resolve('dist/main.js')], { DATA_DIR: `${workspace.data}-${version}` });
    const url = /http:[^\s]+/.exec(await service.line(/^Ready: /))?.[0] ?? '';
    expect((await fetch(`${url}/health/ready`)).status).toBe(200);
    expect((await service.end('SIGTERM')).code).toBe(0);
    expect(service.stderr).toBe('');
  }, 120_000);
});

describe('Node 18.20.8', () => {
  it('is refused in one line', async () => {
    const program = workspace.run(await installNode('18.20.8'), [resolve('dist/main.js')], {});
    expect((await program.exited).code).toBe(1);
    expect({ stdout: program.stdout, stderr: program.stderr }).toEqual({
      stdout: '',
      stderr: 'load-data-service needs Node 20.19 or newer, and this is Node 18.20.8: install Node 24, for example with nvm install 24\n',
    });
  }, 120_000);
});
