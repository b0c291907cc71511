const dropped = new WeakSet<Error>();

const drop = (error: NodeJS.ErrnoException): void => {
  if (error.code !== 'EPIPE' && error.code !== 'ECONNRESET') throw error;
  dropped.add(error);
};

/**
 * From now on, text for standard output or standard error is dropped if its reader has gone. Otherwise Node would end
 * the process with a stack and exit code 1. May be called more than once.
 */
export function dropOutputWithoutReader(): void {
  for (const stream of [process.stdout, process.stderr]) stream.off('error', drop).on('error', drop);
}

/** Whether an error was dropped by `dropOutputWithoutReader`. */
export const isOutputWithoutReader = (error: unknown): boolean => error instanceof Error && dropped.has(error);
