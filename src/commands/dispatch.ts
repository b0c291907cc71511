import { exitOnSignal } from '../operations/exit-on-signal.js';

/**
 * The commands by name. Each module runs its command when it is imported. By then, `process.argv` has only the
 * arguments after the command's name.
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
const WIDTH = Math.max(...Object.keys(COMMANDS).map(({ length }) => length));

const HELP = `${USAGE}

${Object.entries(COMMANDS)
  .map(([name, { summary }]) => `  ${name.padEnd(WIDTH)}  ${summary}`)
  .join('\n')}

The settings are environment variables, or lines of the file .env in the working directory. README lists them.

Examples:
  npx load-data-service
  npx load-data-service token --help
`;

/**
 * Runs the command that the first argument of the process names. Without arguments, or if the first one is an option,
 * runs `serve`; but `--help` and `-h` print the list of commands. An unknown command is reported in one line, with exit
 * code 2.
 */
export async function dispatch(): Promise<void> {
  const [first] = process.argv.slice(2);
  if (first === '--help' || first === '-h') {
    process.stdout.write(HELP);
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
