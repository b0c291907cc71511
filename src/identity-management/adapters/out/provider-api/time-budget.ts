import { ANSWER_WITHIN_MS } from '../../../../common/answer-times.js';

// The time limits of the steps at an identity provider, in milliseconds. All but the one for opening a connection are
// derived from the time within which a client of the service gets its answer (`ANSWER_WITHIN_MS`).

/** The time limit for opening a connection to the provider. */
export const CONNECT_TIMEOUT_MS = 3_000;
/**
 * The time limit for one request to the provider. It includes the wait for a connection, the whole answer and, if the
 * first attempt fails and the request is repeatable, a second one. The wait for the rate limiter isn't included.
 */
export const REQUEST_TIMEOUT_MS = ANSWER_WITHIN_MS;
/** The time limit for reading a whole list with one call. If the call takes longer, the list is read page by page. */
export const WHOLE_LIST_TIMEOUT_MS = ANSWER_WITHIN_MS / 5;
/** The time limit for getting the service's token. The rest of the time is for the call that needs the token. */
export const TOKEN_TIMEOUT_MS = ANSWER_WITHIN_MS / 2;
/**
 * The deadline for the calls of an operation in the rate limiter's queue, counted from the time when the operation's
 * first call entered the queue. A call that still waits after that fails.
 */
export const LAST_CALL_WITHIN_MS = ANSWER_WITHIN_MS - 1_000;
/**
 * The deadline in the queue of the rate limiter for a `new` operation none of whose calls has been answered yet. It is
 * three seconds before LAST_CALL_WITHIN_MS, so that these seconds are left for the other calls of the operation if the
 * first one leaves the queue just in time.
 */
export const FIRST_CALL_WITHIN_MS = LAST_CALL_WITHIN_MS - 3_000;
/**
 * How long a `begun` call, such as for the next page of a list, waits in the rate limiter's queue behind operations
 * that arrived earlier. After that, the call goes before all calls except urgent ones. Otherwise it might wait too long
 * behind operations with many calls, or behind many lists that began together while the token bucket was full.
 */
export const BEGUN_GOES_FIRST_AFTER_MS = LAST_CALL_WITHIN_MS - 5_000;

// The following limits are for removals and mails. A client never waits for a mail. It waits for the first attempt of a
// removal, but only within the time limit of its operation (`ProviderDeadline`).

/** The time limit for one attempt to remove a user or role that a failed creation left. */
export const REMOVAL_TIMEOUT_MS = ANSWER_WITHIN_MS;
/** The time limit for all calls that invite one user. Each call of `ApiClient` also has `REQUEST_TIMEOUT_MS`. */
export const MAIL_TIMEOUT_MS = 2 * ANSWER_WITHIN_MS;
