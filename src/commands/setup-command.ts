import { isEmail } from 'class-validator';
import { hasCode, isCoded } from '../common/error-code.js';
import { CommandError, commandArguments } from './command.js';
import { toDotEnv } from './dot-env-format.js';
import { ask, isTerminal } from './prompt.js';
import type { ServedEnvironment } from '../configuration/commands.js';
import { PermissionDenied, TokenRefused } from '../identity-management/adapters/out/provider-api/api-failure.js';
import type { Requirement } from '../identity-management/adapters/out/provider-requirements/requirement.js';

export interface ProviderSetup {
  /** The requirements of the service on its identity provider, in the order in which they can be fulfilled. */
  readonly parts: (administrator: string | undefined) => Promise<readonly Requirement[]>;
  readonly remarks: (dryRun: boolean) => Promise<readonly string[]>;
  /** The variables for the service's environment, except audience, base path and public URL (see `served`). */
  readonly variables: () => Promise<Readonly<Record<string, string>>>;
  readonly served: ServedEnvironment;
  readonly rights: string;
  readonly refusal: (error: TokenRefused) => string;
  readonly close: () => Promise<void>;
}

export interface SetupCommand {
  readonly help: string;
  readonly credentials: Credentials;
  readonly begin: () => Promise<ProviderSetup>;
}

export interface Credentials {
  readonly variables: readonly [name: string, secret: string];
  readonly questions: readonly [name: string, secret: string];
}

const OPTIONS = { administrator: { type: 'string' }, 'dry-run': { type: 'boolean', default: false } } as const;

const comeFrom = ({ variables }: Credentials): string => `credentials come from ${variables.join(' and ')}`;

const printLine = (line: string): void => {
  process.stderr.write(`${line}\n`);
};

/**
 * Runs the set-up of an identity provider. A dry run only prints the changes and the remarks.
 *
 * @returns the exit code.
 * @throws CommandError when the arguments are invalid, the provider refuses the credentials, or their rights don't
 * suffice; other errors of `begin` and of its result. Changes that were made before an error stay.
 */
export async function runSetup({ help, credentials, begin }: SetupCommand): Promise<number> {
  const problem = (error: Error): string => problemWithoutArgument(error, credentials);
  const given = commandArguments({ help, options: OPTIONS, problem }, ({ administrator, 'dry-run': dryRun }) => {
    if (administrator !== undefined && !isEmail(administrator)) throw new Error('--administrator must be an e-mail address');
    return { administrator: administrator?.toLowerCase(), dryRun };
  });
  if (!given) return 0;
  const setup = await begin();
  try {
    const count = await change(await setup.parts(given.administrator), given.dryRun);
    for (const line of await setup.remarks(given.dryRun)) printLine(`! ${line}`);
    if (count === 0) printLine('Nothing to change.');
    else printLine(given.dryRun ? `Would change ${count}; nothing is changed.` : `Changed ${count}.`);
    if (!given.dryRun) process.stdout.write(toDotEnv({ ...(await setup.variables()), ...variablesOf(setup.served) }));
    return 0;
  } catch (error) {
    throw explained(error, setup);
  } finally {
    await setup.close();
  }
}

/**
 * Returns the name and the secret of the provider's administrator. Asks on the terminal for one that is undefined.
 *
 * @throws CommandError when there is no terminal to ask on; AbortError when the terminal is closed before an answer, or
 * on Ctrl+C.
 */
export async function askForCredentials(credentials: Credentials, name: string | undefined, secret: string | undefined): Promise<[name: string, secret: string]> {
  if ((name === undefined || secret === undefined) && !isTerminal()) {
    throw new CommandError(`There is no terminal to ask on, so ${comeFrom(credentials)}, which must be set.`);
  }
  const [forName, forSecret] = credentials.questions;
  return [name ?? (await ask(`${forName}: `)), secret ?? (await ask(`${forSecret}: `, { secret: true }))];
}

function variablesOf({ oidc, basePath, publicUrl }: ServedEnvironment): Record<string, string> {
  return {
    OIDC_AUDIENCE: oidc.audience,
    ...(basePath !== '' && { BASE_PATH: basePath }),
    ...(publicUrl !== undefined && { PUBLIC_URL: publicUrl }),
  };
}

function explained(error: unknown, { rights, refusal }: ProviderSetup): unknown {
  if (error instanceof PermissionDenied) return new CommandError(`${rights} don't suffice: ${error.message}`, { cause: error });
  return error instanceof TokenRefused ? new CommandError(refusal(error), { cause: error }) : error;
}

/** An error of `parseArgs` has a code. Its message isn't shown, because it quotes the argument, which may be a password. */
function problemWithoutArgument(error: Error, credentials: Credentials): string {
  if (!isCoded(error)) return error.message;
  return hasCode(error, 'ERR_PARSE_ARGS_INVALID_OPTION_VALUE') ? 'An argument has no value, or one too many' : `There is an unknown argument; ${comeFrom(credentials)}`;
}

async function change(parts: readonly Requirement[], dryRun: boolean): Promise<number> {
  let count = 0;
  for (const part of parts) {
    const changes = await part.changes();
    if (changes.length === 0) printLine(`= ${part.name}`);
    for (const { text, make, note } of changes) {
      if (!dryRun) await make();
      printLine(text);
      const shown = dryRun ? undefined : await note?.();
      if (shown !== undefined) printLine(shown);
      count++;
    }
  }
  return count;
}
