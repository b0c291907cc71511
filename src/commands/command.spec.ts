import process from 'node:process';
import { afterEach, expect, it, vi } from 'vitest';
import { runCommand } from './command.js';

const { exitCode } = process;
afterEach(() => {
  vi.restoreAllMocks();
  process.exitCode = exitCode;
});

it('prints the innermost cause of an error, also one without a text, as for a host with several addresses', async () => {
  const printed = vi.spyOn(process.stderr, 'write').mockReturnValue(true);
  const refused = new AggregateError([Object.assign(new Error(''), { code: 'ECONNREFUSED' })]);
  await runCommand(() => Promise.reject(new Error('The store took no object.', { cause: refused })), 2);
  expect(printed.mock.calls).toEqual([['The store took no object. (ECONNREFUSED)\n']]);
  expect(process.exitCode).toBe(2);
});
