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

/**
 * Whether an error is one that standard output or standard error has emitted since `dropOutputWithoutReader`, because
 * the reader of its text has gone.
 */
export const isOutputWithoutReader = (error: unknown): boolean => error instanceof Error && dropped.has(error);
