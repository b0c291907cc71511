import { messageWithRootCause } from '../common/error-message.js';
import { dropOutputWithoutReader, isOutputWithoutReader } from '../common/output-without-reader.js';
import { oneLine } from '../common/text.js';
import { EnvironmentError } from '../configuration/variables.js';

/** Ends a command early. The error's message is printed for the user; the error's `cause` isn't. */
export class CommandError extends Error {}

/** The command was called with invalid arguments. */
export class UsageError extends CommandError {}

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

/**
 * Parses the arguments of a command.
 *
 * @throws UsageError when `parse` throws. Its message contains `usage` and the first line of the error of `parse`.
 */
export function commandArguments<Arguments>(usage: string, parse: () => Arguments): Arguments {
  try {
    return parse();
  } catch (error) {
    const [problem] = (error as Error).message.split('\n');
    throw new UsageError(`${problem ?? ''} (usage: ${usage})`, { cause: error });
  }
}
