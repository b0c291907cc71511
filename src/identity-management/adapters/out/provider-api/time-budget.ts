import { ANSWER_WITHIN_MS } from '../../../application/provider-deadline.js';

// How the time until a client gets its answer (`ANSWER_WITHIN_MS`) is divided among the steps at an identity provider,
// in milliseconds.

/** The time for opening a connection to the provider. */
export const CONNECT_TIMEOUT_MS = 3_000;
/** The time for one request to the provider, including its connection and the whole answer. */
export const REQUEST_TIMEOUT_MS = ANSWER_WITHIN_MS;
/** The time for reading a whole list in one answer. After that time, the list is read page by page. */
export const WHOLE_LIST_TIMEOUT_MS = ANSWER_WITHIN_MS / 5;
/** The time for getting the service's token. The rest is for the call that needs the token. */
export const TOKEN_TIMEOUT_MS = ANSWER_WITHIN_MS / 2;
/** How long after its start an operation still waits for a turn to make a further call. */
export const LAST_CALL_WITHIN_MS = ANSWER_WITHIN_MS - 1_000;
/**
 * How long a new operation waits for the turn to make its first call. The wait isn't longer, so that the operation's
 * other calls have time before the caller gives up.
 */
export const FIRST_CALL_WITHIN_MS = LAST_CALL_WITHIN_MS - 3_000;
/**
 * How long a turn of work already begun, such as the next page of a list, waits behind operations that arrived earlier.
 * If the turn waited longer, it might wait in vain: behind operations with many calls, or because a rate limit's full
 * token bucket has let many lists begin, each of which then needs a turn.
 */
export const BEGUN_GOES_FIRST_AFTER_MS = LAST_CALL_WITHIN_MS - 5_000;

// No client waits for the removals and mails that the following times are for.

/** The time for one attempt to remove what a failed creation left. */
export const REMOVAL_TIMEOUT_MS = ANSWER_WITHIN_MS;
/** The time for the request to send a mail. */
export const MAIL_TIMEOUT_MS = 2 * ANSWER_WITHIN_MS;
