/** How long the answer of an operation on users or roles, or the beginning of a list, usually takes at most. */
export const ANSWER_WITHIN_MS = 10_000;
/**
 * How long the check of an access token with a known key waits at most for newer keys of the issuer, if the known ones
 * can be trusted.
 */
export const KNOWN_KEY_WAIT_MS = 500;
/**
 * The part of `ANSWER_WITHIN_MS` that is reserved for checking the access token of the request. With an unknown key,
 * the check may take several seconds longer, and so may the answer.
 */
export const TOKEN_CHECK_MS = KNOWN_KEY_WAIT_MS + 100;
