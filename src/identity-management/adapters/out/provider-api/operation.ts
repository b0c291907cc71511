/**
 * How the calls of an operation wait in the queue of the rate limiter (`CallPace`), and how long. All times are counted
 * from the operation's first call.
 *
 * - `new`: behind the calls of all operations that arrived earlier. A call gives up after `FIRST_CALL_WITHIN_MS`; once
 *   a call of the operation was answered, the next ones give up after `LAST_CALL_WITHIN_MS`.
 * - `begun`: behind the same calls, but gives up only after `LAST_CALL_WITHIN_MS`, even if it is the first call. After
 *   `BEGUN_GOES_FIRST_AFTER_MS` it goes before all calls except urgent ones, so that it isn't kept waiting however many
 *   operations there are.
 * - `urgent`: before all other calls. Gives up after `LAST_CALL_WITHIN_MS`. For rare calls that must not fail because
 *   of a high load: a health check, and the first attempt to remove what a failed creation left.
 */
export type Standing = 'new' | 'begun' | 'urgent';

/** An operation's place in the queue of the rate limiter (`CallPace`). */
export interface Place {
  /** The operation's position in the order of arrival. Urgent operations come before all others. */
  readonly order: number;
  /** When the operation's first call entered the queue, by `performance.now()`. */
  readonly since: number;
  /**
   * Whether a call that this operation sent was answered, other than with 429. True from the start if the standing
   * isn't `new`. An answer to another operation's call, shared by this operation, doesn't count.
   */
  hasBegun: boolean;
  readonly standing: Standing;
}

/** An operation of the service at the identity provider, which may take several calls. */
export class Operation {
  /**
   * The operation's place in the queue of the rate limiter (`CallPace`). Undefined until the operation's first call.
   */
  place: Place | undefined;

  /** @param signal aborts when nobody waits for the operation any more. Default: never. */
  constructor(
    readonly signal: AbortSignal = new AbortController().signal,
    readonly standing: Standing = 'new',
  ) {}
}

/**
 * Makes the operations for reading a list: a separate one for each call, or each group of simultaneous calls. The first
 * operation is `new`, and all others are `begun`. So a long list doesn't block other operations for long, and isn't
 * given up halfway when many operations arrive.
 */
export class ListTurns {
  private isNew = true;

  /** @param signal aborts when nobody waits for the list any more. */
  constructor(readonly signal: AbortSignal) {}

  /** Returns the operation for the next call that reads the list, or for several simultaneous calls. */
  next(): Operation {
    const standing = this.isNew ? 'new' : 'begun';
    this.isNew = false;
    return new Operation(this.signal, standing);
  }
}
