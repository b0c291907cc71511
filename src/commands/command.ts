import { EnvironmentError } from '../configuration/variables.js';

/** Why a command ends early, in words for the one who gave it, which need no cause beside them. */
export class CommandError extends Error {}

/** The command was given in a way that it doesn't have. */
export class UsageError extends CommandError {}

/**
 * Runs a command to its exit code. What it throws is one line on standard error, of a wrong environment one a variable,
 * and the exit code for that; a `UsageError` may have one of its own.
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

/** What `parse` makes of a command's arguments. @throws UsageError with the usage. */
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
