/** An error of Node.js or SQLite, with a code such as `ENOSPC` or `SQLITE_FULL`, and the path if it is known. */
export type CodedError = Error & { readonly code: string; readonly path?: unknown };

export const isCoded = (error: unknown): error is CodedError => error instanceof Error && 'code' in error && typeof error.code === 'string';

/** Whether an error has one of these codes, for example `ENOENT`. */
export const hasCode = (error: unknown, ...codes: readonly string[]): boolean => isCoded(error) && codes.includes(error.code);
