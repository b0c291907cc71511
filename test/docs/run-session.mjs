// Runs the `sh` blocks of a documentation page in one shell, as if they were pasted, and compares their output with the
// `text` block after each. `…` in a `text` block matches anything. The output of each `sh` block must end with a
// newline. Background processes that the blocks have started end with the shell.
// Usage: node test/docs/run-session.mjs [--shell=bash|dash|zsh] <page> [<heading> | --again=<heading> | --run=<command>]…
// With headings, runs only the blocks below these headings, in the given order, and each `<command>` at its place among
// the headings. `--again` doesn't compare the output, for a second run that prints something else. The default shell is
// bash.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';

const MOST_SECONDS = 300;
const RETRY_MS = 50;
const MARK = '---- end of block';
const RUN = '--run=';
const AGAIN = '--again=';
const SHELL = '--shell=';
/** The parameters of each shell that make it end at the first command that fails. Dash has no `pipefail`. */
const SHELLS = { bash: ['-eu', '-o', 'pipefail', '-c'], dash: ['-eu', '-c'], zsh: ['-f', '-eu', '-o', 'pipefail', '-c'] };

const given = process.argv.slice(2);
const shell = given.find((argument) => argument.startsWith(SHELL))?.slice(SHELL.length) ?? 'bash';
const [page, ...parts] = given.filter((argument) => !argument.startsWith(SHELL));
const text = readFileSync(page, 'utf8');

function partBelow(heading) {
  const [line] = new RegExp(`^#{2,} ${heading.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')}$`, 'm').exec(text) ?? [];
  if (line === undefined) throw new Error(`${page} has no part "${heading}"`);
  const begin = text.indexOf(`\n${line}\n`) + 1;
  const next = new RegExp(`^#{2,${line.indexOf(' ')}} `, 'gm');
  next.lastIndex = begin + line.length;
  return text.slice(begin, next.exec(text)?.index);
}

const blocksOf = (part) => [...part.matchAll(/```(sh|text)\n([^]*?)```/g)].map(([, kind, body]) => ({ kind, body }));
const blocks = parts.flatMap((part) => {
  if (part.startsWith(RUN)) return [{ kind: 'sh', body: `${part.slice(RUN.length)}\n` }];
  if (part.startsWith(AGAIN)) return blocksOf(partBelow(part.slice(AGAIN.length))).filter(({ kind }) => kind === 'sh');
  return blocksOf(partBelow(part));
});
if (parts.length === 0) blocks.push(...blocksOf(text));

async function run(script) {
  const child = spawn(shell, [...SHELLS[shell], script], { detached: true, stdio: ['ignore', 'pipe', 'inherit'] });
  let stdout = '';
  child.stdout.setEncoding('utf8').on('data', (chunk) => (stdout += chunk));
  const ended = once(child, 'exit');
  // The shell's process group isn't that of this process, so a signal that ends this process doesn't reach the shell by
  // itself.
  for (const signal of ['SIGINT', 'SIGTERM']) {
    process.once(signal, () => {
      signalGroup(child.pid, 'SIGTERM');
      process.exit(1);
    });
  }
  const settled = new AbortController();
  const silence = delay(MOST_SECONDS * 1000, [`nothing after ${MOST_SECONDS} s`], { signal: settled.signal });
  const [status] = await Promise.race([ended, silence]);
  settled.abort();
  silence.catch(() => undefined);
  for (let signal = 'SIGTERM'; signalGroup(child.pid, signal); signal = 0) await delay(RETRY_MS);
  return { status, stdout };
}

/** Sends a signal to a process group. Returns whether the group has a process. The signal 0 only asks. */
function signalGroup(id, signal) {
  try {
    return process.kill(-id, signal);
  } catch (error) {
    if (error.code !== 'ESRCH') throw error;
    return false;
  }
}

const commands = blocks.filter(({ kind }) => kind === 'sh');
const { status, stdout } = await run(commands.map(({ body }) => `${body}printf '\\n%s\\n' '${MARK}'\n`).join(''));
const outputs = stdout.split(`\n${MARK}\n`);

let failed = status === 0 ? 0 : 1;
if (failed) console.error(`${page}: ${shell} ended with ${status} after ${outputs.length - 1} of ${commands.length} blocks`);
for (const output of outputs.slice(0, -1)) {
  if (output === '' || output.endsWith('\n')) continue;
  failed += 1;
  console.error(`${page}: an answer ends without a newline, so that the prompt follows it in its line:\n${output.trim()}`);
}
let compared = 0;
blocks.forEach(({ kind, body }, index) => {
  if (kind !== 'text') return;
  const printed = outputs[blocks.slice(0, index).filter((block) => block.kind === 'sh').length - 1] ?? '';
  const pattern = body.trim().split('…').map((piece) => piece.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')).join('.+?');
  compared += 1;
  if (new RegExp(`^${pattern}$`).test(printed.trim())) return;
  failed += 1;
  console.error(`${page}: expected\n${body.trim()}\nbut it printed\n${printed.trim()}`);
});
console.log(`${[page, ...parts.filter((part) => !part.startsWith(RUN))].join(', ')}: ${commands.length} blocks run in ${shell}, ${compared} answers compared, ${failed} wrong`);
if (failed > 0) process.exitCode = 1;
