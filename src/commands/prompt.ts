import { createInterface } from 'node:readline/promises';
import { Writable } from 'node:stream';

/** Whether the user can be asked for a missing value: standard input and standard error are terminals. */
export const isTerminal = (): boolean => process.stdin.isTTY && process.stderr.isTTY;

/**
 * Asks the user a question on standard error. With `secret`, the terminal doesn't show the answer.
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
  // For a secret, all output of the `readline` interface is discarded, even the question. So the question is written
  // here, after the interface has stopped the terminal from echoing the answer.
  if (secret) process.stderr.write(question);
  try {
    return await terminal.question(question, { signal: ended.signal });
  } finally {
    terminal.close();
    if (secret) process.stderr.write('\n');
  }
}
