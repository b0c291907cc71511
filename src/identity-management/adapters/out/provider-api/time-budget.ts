import { ANSWER_WITHIN_MS } from '../../../../common/answer-times.js';

export const CONNECT_TIMEOUT_MS = 3_000;
/** The time limit of a request, with the wait for a connection and a second attempt, but not for the rate limiter. */
export const REQUEST_TIMEOUT_MS = ANSWER_WITHIN_MS;
/** The time limit for one call that reads a whole list. After that, the list is read page by page. */
export const WHOLE_LIST_TIMEOUT_MS = ANSWER_WITHIN_MS / 5;
export const TOKEN_TIMEOUT_MS = ANSWER_WITHIN_MS / 2;
/** The deadline of a call in the rate limiter's queue, from the operation's first call on. */
export const LAST_CALL_WITHIN_MS = ANSWER_WITHIN_MS - 1_000;
/** The deadline for a `new` operation without an answer yet, so that three seconds are left for its other calls. */
export const FIRST_CALL_WITHIN_MS = LAST_CALL_WITHIN_MS - 3_000;
/** When a `begun` call goes before all but urgent ones, so that operations with many calls don't delay it too long. */
export const BEGUN_GOES_FIRST_AFTER_MS = LAST_CALL_WITHIN_MS - 5_000;

export const REMOVAL_TIMEOUT_MS = ANSWER_WITHIN_MS;
/** The time limit for all calls that invite one user. No client waits for them. */
export const MAIL_TIMEOUT_MS = 2 * ANSWER_WITHIN_MS;
