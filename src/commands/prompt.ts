import { createInterface } from 'node:readline/promises';
import { Writable } from 'node:stream';

/** Whether somebody is there to be asked. */
export const isTerminal = (): boolean => process.stdin.isTTY && process.stderr.isTTY;

/**
 * Asks on the terminal, beside standard output; what is typed is shown unless it is secret.
 *
 * @throws AbortError when the terminal is closed in place of an answer, or Ctrl+C.
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
  // Not before the terminal has stopped showing what is typed.
  if (secret) process.stderr.write(question);
  try {
    return await terminal.question(question, { signal: ended.signal });
  } finally {
    terminal.close();
    if (secret) process.stderr.write('\n');
  }
}
