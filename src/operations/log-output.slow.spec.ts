import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { text } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { built } from '../../test/support/built.js';

// Other processes import dist.
await built();

const LOGGING = JSON.stringify(resolve('dist/operations/logging.js'));
/** About 1.5 MB of lines, which is more than a pipe holds. */
const MANY = "for (let number = 0; number < 10_000; number++) logger.info({ number, rest: 'x'.repeat(100) });";

/** A process that has a logger, and runs a script when it is told to. */
function start(script: string, stdout: 'pipe' | number = 'pipe'): ChildProcess {
  const code = `import { createLogger } from ${LOGGING}; const logger = await createLogger('info'); process.stdin.once('data', () => { ${script} });`;
  return spawn(process.execPath, ['--input-type=module', '-e', code], { stdio: ['pipe', stdout, 'pipe'] });
}

async function end(child: ChildProcess): Promise<number | null> {
  child.stderr?.resume();
  child.stdin?.write('.');
  const [code] = (await once(child, 'exit')) as [number | null];
  return code;
}

const numbers = (lines: string): number[] => lines.trim().split('\n').map((line) => (JSON.parse(line) as { number: number }).number);
const ALL = Array.from({ length: 10_000 }, (_, number) => number);

describe('the log of a process that ends', () => {
  it.each([
    ['exits', 'process.exit(3)', 3],
    ['has nothing left to do', 'process.exitCode = 3; process.stdin.destroy()', 3],
    ['throws', "throw new Error('unexpected')", 1],
  ])('is complete for a reader that is slower than the process, if the process %s', async (_, ending, code) => {
    const child = start(`${MANY} ${ending}`);
    const [log, exitCode] = await Promise.all([text(child.stdout as NodeJS.ReadableStream), end(child)]);
    expect(exitCode).toBe(code);
    expect(numbers(log)).toEqual(ALL);
  });

  describe('in a file', () => {
    let directory: string;
    let path: string;
    let file: number;

    beforeEach(() => {
      directory = mkdtempSync(join(tmpdir(), 'log-'));
      path = join(directory, 'log');
      file = openSync(path, 'a');
    });
    afterEach(() => {
      closeSync(file);
      rmSync(directory, { recursive: true });
    });

    it('is complete and in order if the process exits', async () => {
      expect(await end(start(`${MANY} process.exit(3)`, file))).toBe(3);
      expect(numbers(readFileSync(path, 'utf8'))).toEqual(ALL);
    });

    it('is complete and in order while the process runs', async () => {
      const child = start(`${MANY} logger.info({ number: 10_000 });`, file);
      child.stdin?.write('.');
      while (!readFileSync(path, 'utf8').includes('"number":10000}\n')) await delay(20);
      expect(numbers(readFileSync(path, 'utf8'))).toEqual([...ALL, 10_000]);
      child.kill();
      await once(child, 'exit');
    });
  });

  it.each<[string, string]>([
    ['exits', 'process.exit(3)'],
    ['has nothing left to do', 'process.exitCode = 3; process.stdin.destroy()'],
  ])('does not keep it from ending without a reader, if the process %s', async (_, ending) => {
    const child = start(`logger.info('a'); ${ending}`);
    child.stdout?.destroy();
    expect(await end(child)).toBe(3);
  });

  it('does not keep it from ending if the reader reads nothing', async () => {
    expect(await end(start(`${MANY} process.exit(3)`))).toBe(3);
  });

  it('does not keep it from ending if the disk is full', async () => {
    const full = openSync('/dev/full', 'w');
    expect(await end(start("logger.info('a'); process.exit(3)", full))).toBe(3);
    closeSync(full);
  });

  it('takes a limited part of its memory if the reader reads nothing', async () => {
    // A string in Node holds at most 512 MiB.
    const script = "const rest = 'x'.repeat(2 ** 20); for (let count = 0; count < 600; count++) logger.info({ rest }); process.exit(3);";
    expect(await end(start(script))).toBe(3);
  });
});
