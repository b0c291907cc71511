/** Whether an error means that nobody reads the pipe or socket any more. */
export const isWithoutReader = (error: unknown): boolean => error instanceof Error && 'code' in error && (error.code === 'EPIPE' || error.code === 'ECONNRESET');

const passOver = (error: Error): void => {
  if (!isWithoutReader(error)) throw error;
};

/**
 * From now on, text for standard output or standard error is dropped if its reader has gone. Node would end the process
 * with a stack and exit code 1. May be called more than once.
 */
export function dropOutputWithoutReader(): void {
  for (const stream of [process.stdout, process.stderr]) stream.off('error', passOver).on('error', passOver);
}
