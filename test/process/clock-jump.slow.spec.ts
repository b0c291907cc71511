import { existsSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Workspace } from '../support/process.js';

const UPLOAD = '/ingestHistoricalLoadData/upload_historical?customer_id=c&filename=load.csv&manufacturer=m';
/** Where Debian's package `libfaketime` has its library for programs with several threads. */
const LIBRARY = ['x86_64', 'aarch64'].map((machine) => `/usr/lib/${machine}-linux-gnu/faketime/libfaketimeMT.so.1`).find((path) => existsSync(path));
if (LIBRARY === undefined) console.warn('Left out: the test of a process whose clock jumps, because libfaketime is missing.');

describe.runIf(LIBRARY !== undefined)('a process whose clock is set', () => {
  let workspace: Workspace;
  beforeEach(async () => {
    workspace = await Workspace.create();
  });
  afterEach(() => workspace.dispose());

  it('has the jump in load_data_clock_shift_seconds, and goes on serving', async () => {
    const clock = join(workspace.directory, 'clock');
    const setClock = (offset: string) => writeFile(clock, offset);
    await setClock('+0');
    const service = await workspace.start({ LD_PRELOAD: LIBRARY ?? '', FAKETIME_TIMESTAMP_FILE: clock, FAKETIME_NO_CACHE: '1', FAKETIME_DONT_FAKE_MONOTONIC: '1', NO_FAKE_STAT: '1' });
    const shift = async () => {
      const [, seconds] = /^load_data_clock_shift_seconds (\S+)$/m.exec(await (await fetch(`${service.url}/metrics`)).text()) ?? [];
      return Number(seconds);
    };
    for (const [offset, seconds] of [['+0', 0], ['+3600', 3600], ['-600', -600], ['+0', 0]] as const) {
      await setClock(offset);
      await expect.poll(shift, { timeout: 30_000 }).toBeCloseTo(seconds, -1);
      expect((await fetch(service.url + UPLOAD, { method: 'POST', headers: { 'Content-Type': 'text/csv' }, body: 'a,b' })).status).toBe(200);
      expect((await fetch(`${service.url}/health/ready`)).status).toBe(200);
    }
    expect(await service.program.end('SIGTERM')).toEqual({ code: 0, signal: null });
  });
});
