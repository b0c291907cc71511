import { readFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { isKeycloakAvailable } from '../servers/keycloak.mjs';
import { isVersitygwAvailable } from '../servers/versitygw.mjs';
import { cacheVariables, type Program, Workspace } from '../support/process.js';

const CURVES = ['memory', 'descriptors', 'threads', 'event-loop lag'];
const LATENCIES = ['JSON upload', '4 KiB file with a key', 'page of uploads', 'content', 'GET /users'];
/** Without a verdict. */
const CONTROLS = ['control write', 'control fetch', 'control read'];
const UNJUDGED = 'no latency could be judged';
const WITHIN_MS = 240_000;

// It reads /proc.
describe.runIf(process.platform === 'linux')('npm run soak', () => {
  let workspace: Workspace;
  let soak: Program;
  beforeEach(async () => {
    workspace = await Workspace.create();
  });
  afterEach(async () => {
    // Ends the service, if the test has run out of time.
    await soak.end('SIGTERM');
    await workspace.dispose();
  });

  /** Allows memory, times and the descriptors in use any growth: other tests run beside it, and it is too short to judge them. */
  const run = async (setup: string, ...parameters: string[]): Promise<void> => {
    const all = [`--only=${setup}`, '--most-growth=Infinity', `--directory=${workspace.directory}`, ...parameters];
    soak = workspace.run(process.execPath, ['test/soak/run.mjs', ...all], cacheVariables(), resolve('.'));
    const { code } = await soak.exited;
    // While other tests run, the controls may change too much to be compared with.
    expect(code, soak.stdout + soak.stderr).toBe(soak.stdout.includes(UNJUDGED) ? 1 : 0);
    expect(soak.stdout).toContain('no unexpected answer; the store is as the lines say');
    // The number of threads depends neither on the load of other tests nor on the few samples of a short run.
    const [, second, last] = /^│ threads +│ '([\d.]+)' +│ '([\d.]+)'/m.exec(soak.stdout) ?? [];
    expect(Number(last) - Number(second), soak.stdout).toBeLessThanOrEqual(1);
  };

  it('prints a table, draws the curves, and finds no unexpected answer, and no descriptor that stays open', async () => {
    // Memory is read twice in each quarter.
    await run('local', '--minutes=1.5', '--rate=25');
    for (const curve of CURVES) expect(soak.stdout).toMatch(new RegExp(`^│ ${curve} +│ '\\d.*'flat'`, 'm'));
    for (const latency of LATENCIES) expect(soak.stdout).toMatch(new RegExp(`^│ ${latency} +│ '\\d.*'(?:flat|unknown)'`, 'm'));
    for (const control of CONTROLS) expect(soak.stdout).toMatch(new RegExp(`^│ ${control} +│ '\\d[^']*' +│ '\\d[^']*' +│ '\\d[^']*' +│ +│ +│$`, 'm'));
    const svg = await readFile(join(workspace.directory, 'local.svg'), 'utf8');
    expect([...svg.matchAll(/<polyline points="[\d., ]+"/g)]).toHaveLength(CURVES.length + LATENCIES.length + CONTROLS.length);
  }, WITHIN_MS);

  it('fails if it could judge no latency', async () => {
    soak = workspace.run(process.execPath, ['test/soak/run.mjs', '--only=local', '--minutes=0', `--directory=${workspace.directory}`], cacheVariables(), resolve('.'));
    expect((await soak.exited).code, soak.stdout + soak.stderr).toBe(1);
    expect(soak.stdout.trim()).toMatch(new RegExp(`no unexpected answer; .*\n${UNJUDGED}: .*$`));
  }, WITHIN_MS);

  it.runIf(isVersitygwAvailable() && isKeycloakAvailable())('finds no unexpected answer with a bucket and Keycloak, and no descriptor that stays open after a burst', async () => {
    // Connections that are never closed are as many as were needed at the same time.
    await run('distributed', '--minutes=1', '--rate=10', '--burst=200');
  }, WITHIN_MS);
});
