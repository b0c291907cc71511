/** The message of an error. Anything else that was thrown, as a text. */
export const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/** The message of an error, with that of the error's cause in brackets if there is one. */
export const messageWithCause = (error: unknown): string =>
  error instanceof Error && error.cause instanceof Error ? `${error.message} (${error.cause.message})` : messageOf(error);
