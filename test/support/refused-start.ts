import { expect } from 'vitest';
import type { Program } from './process.js';

/** Expects that a program exits with status 1, and prints only these lines on standard error. */
export async function expectRefused(program: Program, ...lines: RegExp[]): Promise<void> {
  expect(await program.exited).toEqual({ code: 1, signal: null });
  expect(program.stderr.split('\n')).toEqual([...lines.map((line) => expect.stringMatching(line) as string), '']);
  // The cause of the refusal is reported only on standard error: the log has no error.
  expect(program.lines.filter((line) => /"level":[56]0/.test(line))).toEqual([]);
  for (const line of program.lines) expect(() => JSON.parse(line) as unknown).not.toThrow();
}
