import { existsSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Workspace } from '../support/process.js';

const MODULE = pathToFileURL(resolve('dist/operations/unused-memory.js')).href;
const isGlibc = existsSync('/lib/ld-linux-x86-64.so.2') || existsSync('/lib64/ld-linux-x86-64.so.2') || existsSync('/lib/ld-linux-aarch64.so.1');

/**
 * A program that holds 20,000 pieces of 16 KiB, and then frees all but each twentieth. It prints its resident memory in
 * MiB before it frees them, and every second afterwards, one line each.
 */
const program = `
import { setTimeout as delay } from 'node:timers/promises';
import { returnUnusedMemory } from '${MODULE}';
const mib = () => Math.round(process.memoryUsage.rss() / 1024 / 1024);
await returnUnusedMemory(300);
let pieces = Array.from({ length: 20_000 }, () => Buffer.allocUnsafeSlow(16 * 1024).fill(1));
console.log('full ' + mib());
pieces = pieces.filter((_, index) => index % 20 === 0);
for (;; await delay(1_000)) console.log('now ' + mib() + ' with ' + pieces.length);
`;

let workspace: Workspace;
beforeAll(async () => {
  workspace = await Workspace.create();
});
afterAll(() => workspace.dispose());

describe.runIf(isGlibc)('Memory that the process no longer uses', () => {
  it('returns to the system, although V8 has not freed it and glibc keeps it', async () => {
    const run = workspace.run(process.execPath, ['--no-memory-reducer', '--input-type=module', '--eval', program], {});
    const full = Number(/\d+/.exec(await run.line(/^full /))?.[0]);
    const isLess = new RegExp(`^now (${Array.from({ length: full - 200 }, (_, mib) => mib).join('|')}) `);
    await expect(run.line(isLess)).resolves.toBeDefined();
    await run.end('SIGKILL');
  });
});
