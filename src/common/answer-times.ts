/**
 * The time within which a client usually gets the answer of an operation on users or roles, or the beginning of a list
 * of them, in milliseconds (see TOKEN_CHECK_MS for the exception). The answer to an upload may take longer.
 */
export const ANSWER_WITHIN_MS = 10_000;
/**
 * How long the check of an access token with a known key waits at most for newer keys of the issuer, in milliseconds.
 * It may wait longer if the known keys were fetched too long ago to be trusted.
 */
export const KNOWN_KEY_WAIT_MS = 500;
/**
 * The part of `ANSWER_WITHIN_MS` that is reserved for checking the access token of the request, in milliseconds. If the
 * token's key isn't known yet, the check may take several seconds. The client then gets its answer that much later.
 */
export const TOKEN_CHECK_MS = KNOWN_KEY_WAIT_MS + 100;
