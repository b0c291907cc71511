/** Says in one line what is wrong with an argument. */
export class ArgumentError extends Error {}

/**
 * Runs `main` and sets the process's exit code. Wrong arguments (an error of `parseArgs`, or an `ArgumentError`) cause
 * one line on standard error and exit code 1.
 *
 * @param {() => Promise<number>} main resolves to the exit code
 */
export async function runCommand(main) {
  try {
    process.exitCode = await main();
  } catch (error) {
    if (!(error instanceof ArgumentError || error.code?.startsWith('ERR_PARSE_ARGS'))) throw error;
    console.error(error.message);
    process.exitCode = 1;
  }
}
