import { EnvironmentError } from '../configuration/variables.js';

/** Ends a command early with a message for the user. The error's cause isn't shown. */
export class CommandError extends Error {}

/** The command was called with invalid arguments. */
export class UsageError extends CommandError {}

/**
 * Runs a command and sets the exit code of the process to the command's result. An error is printed as one line on
 * standard error and results in `failureCode`. An invalid environment is printed as one line per problem, with the same
 * exit code. A `UsageError` results in `usageCode`.
 */
export async function runCommand(main: () => Promise<number>, failureCode: number, usageCode = failureCode): Promise<void> {
  try {
    process.exitCode = await main();
  } catch (error) {
    const lines = error instanceof EnvironmentError ? error.problems : [oneLine(error as Error)];
    process.stderr.write(lines.map((line) => `${line}\n`).join(''));
    process.exitCode = error instanceof UsageError ? usageCode : failureCode;
  }
}

/**
 * Parses a command's arguments with `parse`.
 *
 * @throws UsageError when `parse` throws. The message includes the usage.
 */
export function commandArguments<Arguments>(usage: string, parse: () => Arguments): Arguments {
  try {
    return parse();
  } catch (error) {
    const [problem] = (error as Error).message.split('\n');
    throw new UsageError(`${problem ?? ''} (usage: ${usage})`, { cause: error });
  }
}

function oneLine(error: Error): string {
  const { message, cause } = error;
  return (cause instanceof Error && !(error instanceof CommandError) ? `${message} (${cause.message})` : message).replaceAll(/\s+/g, ' ');
}
