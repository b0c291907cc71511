import process from 'node:process';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { commandArguments, runCommand } from './command.js';

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

describe('the arguments of a command', () => {
  const { argv } = process;
  afterEach(() => {
    process.argv = argv;
  });

  const options = { date: { type: 'string' }, customer: { type: 'string', multiple: true }, json: { type: 'boolean', default: false } } as const;
  const given = (...parameters: string[]) => {
    process.argv = ['node', 'command', ...parameters];
    return commandArguments({ help: 'command [--date]\n\nIt helps.\n', options }, (values) => ({ ...values }));
  };

  it('are refused with the usage if an option that takes one value is repeated', () => {
    const refusal = '--date can be given only once (usage: command [--date])';
    expect(() => given('--date', '1', '--json', '--date', '1')).toThrow(refusal);
    expect(given('--date', '1', '--json', '--json', '--customer', 'a', '--customer', 'b')).toEqual({ date: '1', json: true, customer: ['a', 'b'] });
  });

  it.each(['--help', '-h'])('are not read when they ask for help by %s, which is printed', (option) => {
    const printed = vi.spyOn(process.stdout, 'write').mockReturnValue(true);
    expect(given('--date', '1', option, '--date', '2')).toBeUndefined();
    expect(printed.mock.calls).toEqual([['command [--date]\n\nIt helps.\n']]);
  });
});
