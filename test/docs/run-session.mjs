// Runs the `sh` blocks of a page in one shell, as if they were pasted, and compares their output with the `text` block
// after each. `…` matches anything. Background processes of the session end with it.
// Usage: node test/docs/run-session.mjs <page> [<heading> | --run=<command>]…
// With headings, runs only their parts, in this order, and each command at its place among them.
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

const MOST_SECONDS = 300;
const MARK = '---- end of block';
const RUN = '--run=';

const [page, ...parts] = process.argv.slice(2);
const text = readFileSync(page, 'utf8');

/** The text below a heading, including its subheadings. */
function partBelow(heading) {
  const [line] = new RegExp(`^#{2,} ${heading.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')}$`, 'm').exec(text) ?? [];
  if (line === undefined) throw new Error(`${page} has no part "${heading}"`);
  const begin = text.indexOf(`\n${line}\n`) + 1;
  const next = new RegExp(`^#{2,${line.indexOf(' ')}} `, 'gm');
  next.lastIndex = begin + line.length;
  return text.slice(begin, next.exec(text)?.index);
}

const blocksOf = (part) => [...part.matchAll(/```(sh|text)\n([^]*?)```/g)].map(([, kind, body]) => ({ kind, body }));
const blocks = parts.flatMap((part) =>
  part.startsWith(RUN) ? [{ kind: 'sh', body: `${part.slice(RUN.length)}\n` }] : blocksOf(partBelow(part)),
);
if (parts.length === 0) blocks.push(...blocksOf(text));

const commands = blocks.filter(({ kind }) => kind === 'sh');
const ending = `trap 'kill $(jobs -p) 2>/dev/null || :; wait' EXIT\n`;
const script = ending + commands.map(({ body }) => `${body}printf '\\n%s\\n' '${MARK}'\n`).join('');
const { status, stdout } = spawnSync('bash', ['-eu', '-o', 'pipefail', '-c', script], {
  encoding: 'utf8',
  stdio: ['ignore', 'pipe', 'inherit'],
  timeout: MOST_SECONDS * 1000,
});
const outputs = stdout.split(`\n${MARK}\n`);

let failed = status === 0 ? 0 : 1;
if (failed) console.error(`${page}: the shell ended with ${status} after ${outputs.length - 1} of ${commands.length} blocks`);
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
console.log(`${[page, ...parts.filter((part) => !part.startsWith(RUN))].join(', ')}: ${commands.length} blocks run, ${compared} answers compared, ${failed} wrong`);
if (failed > 0) process.exitCode = 1;
