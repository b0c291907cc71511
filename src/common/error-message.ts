/** The message of an error; anything else that was thrown, as a text. */
export const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/** Like `messageOf`, but with the message of the error's cause in parentheses, if the cause is an Error too. */
export const messageWithCause = (error: unknown): string =>
  error instanceof Error && error.cause instanceof Error ? `${error.message} (${error.cause.message})` : messageOf(error);
