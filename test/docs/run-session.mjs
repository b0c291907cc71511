// Runs the `sh` blocks of a page in one shell, as somebody would who pastes them, and compares what they print with
// the `text` block behind each: `…` stands for anything. Usage: node test/docs/run-session.mjs <page> [<heading>]
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

const [page, heading] = process.argv.slice(2);
const text = readFileSync(page, 'utf8');
const begin = heading === undefined ? 0 : text.indexOf(`\n## ${heading}\n`);
if (begin < 0) throw new Error(`${page} has no part "${heading}"`);
const end = heading === undefined ? -1 : text.indexOf('\n## ', begin + 4);
const part = text.slice(begin, end < 0 ? undefined : end);

const MARK = '---- end of block';
const blocks = [...part.matchAll(/```(sh|text)\n([^]*?)```/g)].map(([, kind, body]) => ({ kind, body }));
const commands = blocks.filter(({ kind }) => kind === 'sh');
const script = commands.map(({ body }) => `${body}printf '\\n%s\\n' '${MARK}'\n`).join('');
const { status, stdout } = spawnSync('bash', ['-eu', '-o', 'pipefail', '-c', script], {
  encoding: 'utf8',
  stdio: ['ignore', 'pipe', 'inherit'],
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
console.log(`${page}: ${commands.length} blocks run, ${compared} answers compared, ${failed} wrong`);
if (failed > 0) process.exitCode = 1;
