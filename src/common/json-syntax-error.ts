/** The error for bytes that can't be part of a JSON text. */
export const unexpected = (): SyntaxError => new SyntaxError("The text isn't JSON.");
