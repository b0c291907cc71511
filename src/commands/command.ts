import { parseArgs, type ParseArgsConfig } from 'node:util';
import { messageWithRootCause } from '../common/error-message.js';
import { dropOutputWithoutReader, isOutputWithoutReader } from '../common/output-without-reader.js';
import { oneLine } from '../common/text.js';
import { EnvironmentError } from '../configuration/variables.js';

type OptionsConfig = NonNullable<ParseArgsConfig['options']>;
type Values<Options extends OptionsConfig> = ReturnType<typeof parseArgs<{ options: Options }>>['values'];

/** Ends a command early. The error's message is printed for the user; the error's `cause` isn't. */
export class CommandError extends Error {}

/** The command was called with invalid arguments. */
class UsageError extends CommandError {}

/**
 * Runs a command and sets the exit code of the process: the number to which `main` resolves, `usageCode` for a
 * `UsageError`, or `failureCode` for any other error. An error is printed on standard error, except one that says that
 * the reader of the output, such as `head`, has gone.
 */
export async function runCommand(main: () => Promise<number>, failureCode: number, usageCode = failureCode): Promise<void> {
  dropOutputWithoutReader();
  try {
    process.exitCode = await main();
  } catch (error) {
    const lines = error instanceof EnvironmentError ? error.problems : [oneLine(error instanceof CommandError ? error.message : messageWithRootCause(error))];
    if (!isOutputWithoutReader(error)) process.stderr.write(lines.map((line) => `${line}\n`).join(''));
    process.exitCode = error instanceof UsageError ? usageCode : failureCode;
  }
}

interface CommandLine<Options extends OptionsConfig> {
  /** The text for `--help`. Its first line is the usage. */
  readonly help: string;
  /** The options, except `help`, which every command has. */
  readonly options?: Options;
  /** Whether there may be arguments that aren't options (default: false). */
  readonly allowPositionals?: boolean;
  /** The problem that an error of `parseArgs` or `read` means (default: the first line of its message). */
  readonly problem?: (error: Error) => string | undefined;
}

/**
 * The arguments of the command, as `read` returns them. For `--help`, prints the help instead, and returns undefined.
 *
 * @throws UsageError when an option is unknown, when one with a single value is repeated, and when `read` throws.
 */
export function commandArguments<const Options extends OptionsConfig, Arguments>(
  { help, options, allowPositionals = false, problem = ({ message }) => message.split('\n')[0] }: CommandLine<Options>,
  read: (values: Values<Options>, positionals: readonly string[]) => Arguments,
): Arguments | undefined {
  try {
    const { values, positionals, tokens } = parseArgs({ options: { ...options, help: { type: 'boolean', short: 'h' } }, allowPositionals, tokens: true });
    const names = tokens.flatMap((token) => (token.kind === 'option' ? [token.name] : []));
    if (names.includes('help')) {
      process.stdout.write(help);
      return undefined;
    }
    // `parseArgs` would keep only the last value.
    const repeated = names.find((name, at) => options?.[name]?.type === 'string' && !options[name].multiple && names.indexOf(name) < at);
    if (repeated !== undefined) throw new Error(`--${repeated} can be given only once`);
    return read(values as Values<Options>, positionals);
  } catch (error) {
    throw new UsageError(`${problem(error as Error) ?? ''} (usage: ${help.slice(0, help.indexOf('\n'))})`, { cause: error });
  }
}
