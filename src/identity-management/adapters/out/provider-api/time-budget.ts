import { ANSWER_WITHIN_MS } from '../../../application/provider-deadline.js';

// The time limits of the steps at an identity provider, in milliseconds, derived from the time within which a client of
// the service gets its answer (`ANSWER_WITHIN_MS`).

/** The time limit for opening a connection to the provider. */
export const CONNECT_TIMEOUT_MS = 3_000;
/**
 * The time limit for one request to the provider: for the wait for a connection, a second attempt if the first one
 * fails, and the whole answer.
 */
export const REQUEST_TIMEOUT_MS = ANSWER_WITHIN_MS;
/** The time limit for reading a whole list with one call. If the call takes longer, the list is read page by page. */
export const WHOLE_LIST_TIMEOUT_MS = ANSWER_WITHIN_MS / 5;
/** The time limit for getting the service's token. The rest of the time is for the call that needs the token. */
export const TOKEN_TIMEOUT_MS = ANSWER_WITHIN_MS / 2;
/**
 * How long after its first call entered the rate limiter's queue an operation may still wait there to make another one.
 */
export const LAST_CALL_WITHIN_MS = ANSWER_WITHIN_MS - 1_000;
/**
 * How long a new operation may wait in the rate limiter's queue to make its first call. Not longer, so that its other
 * calls can be made before the caller gives up.
 */
export const FIRST_CALL_WITHIN_MS = LAST_CALL_WITHIN_MS - 3_000;
/**
 * How long a `begun` call, such as for the next page of a list, waits in the rate limiter's queue behind operations
 * that arrived earlier. After that, the call goes before them. Otherwise it might wait too long behind operations with
 * many calls, or behind many lists that were begun at once while the rate limit's token bucket was full.
 */
export const BEGUN_GOES_FIRST_AFTER_MS = LAST_CALL_WITHIN_MS - 5_000;

// Clients don't wait longer than ANSWER_WITHIN_MS for the removals and mails that the following limits are for.

/** The time limit for one attempt to remove a user or role that a failed creation left. */
export const REMOVAL_TIMEOUT_MS = ANSWER_WITHIN_MS;
/** The time limit for the calls that invite one user. Calls of `ApiClient` also have `REQUEST_TIMEOUT_MS` each. */
export const MAIL_TIMEOUT_MS = 2 * ANSWER_WITHIN_MS;
