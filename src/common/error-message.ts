/** The message of an error; anything else that was thrown, as a text. */
export const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/**
 * Like `messageOf`, but with the message of the innermost cause in parentheses, or its code if it has no message, as the
 * error for a host with several addresses.
 */
export function messageWithRootCause(error: unknown): string {
  let root = error;
  for (let next = error; next instanceof Error; next = next instanceof AggregateError ? (next.cause ?? next.errors[0]) : next.cause) root = next;
  if (root === error) return messageOf(error);
  const { code } = root as { readonly code?: unknown };
  return `${messageOf(error)} (${messageOf(root) || String(code)})`;
}
