import { createInterface } from 'node:readline/promises';
import { Writable } from 'node:stream';

/** Whether standard input and standard error are terminals, so that the user can be asked. */
export const isTerminal = (): boolean => process.stdin.isTTY && process.stderr.isTTY;

/**
 * Asks the user on the terminal. Writes nothing to standard output. The input is shown unless `secret` is set.
 *
 * @throws AbortError when the terminal is closed before an answer, or on Ctrl+C.
 */
export async function ask(question: string, { secret = false } = {}): Promise<string> {
  const silence = new Writable({
    write: (_chunk, _encoding, done) => {
      done();
    },
  });
  const terminal = createInterface({ input: process.stdin, output: secret ? silence : process.stderr, terminal: true });
  const ended = new AbortController();
  terminal.once('close', () => {
    ended.abort();
  });
  // Write the question only now, after the terminal has stopped echoing the input.
  if (secret) process.stderr.write(question);
  try {
    return await terminal.question(question, { signal: ended.signal });
  } finally {
    terminal.close();
    if (secret) process.stderr.write('\n');
  }
}
