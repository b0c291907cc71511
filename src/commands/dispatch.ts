import { readFileSync } from 'node:fs';
import { dropOutputWithoutReader } from '../common/output-without-reader.js';
import { exitOnSignal } from '../operations/exit-on-signal.js';

/**
 * The commands, by name. `run` imports a module that runs the command; by then, the name is no longer in
 * `process.argv`.
 */
const COMMANDS: Readonly<Record<string, { readonly summary: string; readonly run: () => Promise<unknown> }>> = {
  serve: { summary: 'serves on HOST and PORT (the default)', run: serve },
  token: { summary: 'prints an access token of the embedded identity provider', run: () => import('./token.js') },
  verify: { summary: 'compares every line of the index with its file, and every file with the index', run: () => import('./verify-store.js') },
  compact: { summary: 'merges the small segments of past days in a bucket', run: () => import('./compact.js') },
  move: { summary: 'moves the uploads in DATA_DIR to a bucket', run: () => import('./move-store.js') },
  erase: { summary: 'removes all uploads of a customer for good', run: () => import('./erase.js') },
  'keycloak-setup': { summary: 'creates what the service needs in a Keycloak realm', run: () => import('./keycloak-setup.js') },
  'auth0-setup': { summary: 'creates what the service needs in an Auth0 tenant', run: () => import('./auth0-setup.js') },
};

function serve(): Promise<unknown> {
  exitOnSignal();
  return import('./serve.js');
}

const USAGE = 'load-data-service [<command>] [--help]';
const HELP_NAMES: readonly unknown[] = ['help', '--help', '-h'];
const VERSION_NAMES: readonly unknown[] = ['--version', '-v'];
const WIDTH = Math.max(...Object.keys(COMMANDS).map(({ length }) => length));

const HELP = `${USAGE}

${Object.entries(COMMANDS)
  .map(([name, { summary }]) => `  ${name.padEnd(WIDTH)}  ${summary}`)
  .join('\n')}

  --version, -v  prints the version of the package
  --help, -h     this text; after a command, describes the command and its exit codes

The settings are environment variables, or lines of the file .env in the working directory. README lists them.

Examples:
  npx load-data-service
  npx load-data-service token --help

Exit code: that of the command, 2 there is no such command.
`;

/** Runs the command that the first argument names (default: `serve`), or prints the help or the version. */
export async function dispatch(): Promise<void> {
  dropOutputWithoutReader();
  const [first] = process.argv.slice(2);
  if (HELP_NAMES.includes(first)) {
    process.stdout.write(HELP);
    return;
  }
  if (VERSION_NAMES.includes(first)) {
    process.stdout.write(`${packageVersion()}\n`);
    return;
  }
  const isNamed = first !== undefined && !first.startsWith('-');
  const name = isNamed ? first : 'serve';
  const command = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined;
  if (!command) {
    process.stderr.write(`There is no command ${JSON.stringify(name)} (usage: ${USAGE})\n`);
    process.exitCode = 2;
    return;
  }
  if (isNamed) process.argv.splice(2, 1);
  await command.run();
}

function packageVersion(): string {
  const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as { readonly version: string };
  return version;
}
