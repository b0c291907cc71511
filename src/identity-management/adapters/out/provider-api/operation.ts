/**
 * How long the calls of an operation wait in the rate limiter's queue (`CallPace`), from the operation's first call on:
 *
 * - `new`: behind the calls of all operations that arrived earlier. Gives up after 6 seconds; once a call of the
 *   operation was answered, after 9 seconds. So operations that have begun get finished.
 * - `begun`: behind the same calls, but gives up only after 9 seconds. After 4 seconds, goes before all calls except
 *   urgent ones.
 * - `urgent`: before all other calls. Gives up after 9 seconds. For rare calls that must not fail because of a high
 *   load, such as a health check.
 */
export type Standing = 'new' | 'begun' | 'urgent';

export interface Place {
  readonly order: number;
  /** When the operation's first call entered the queue, by `performance.now()`. */
  readonly since: number;
  /** Whether a call sent by this operation itself was answered, not with 429. True from the start unless `new`. */
  hasBegun: boolean;
  readonly standing: Standing;
}

/** An operation of the service at the identity provider, which may take several calls. */
export class Operation {
  place: Place | undefined;

  constructor(
    readonly signal: AbortSignal = new AbortController().signal,
    readonly standing: Standing = 'new',
  ) {}
}

/**
 * Makes the operations for reading a list, one for each call or group of simultaneous calls. The first is `new`, and
 * all others are `begun`. So a long list doesn't block other operations for long, and isn't given up halfway.
 */
export class ListOperations {
  private isNew = true;

  constructor(readonly signal: AbortSignal) {}

  next(): Operation {
    const standing = this.isNew ? 'new' : 'begun';
    this.isNew = false;
    return new Operation(this.signal, standing);
  }
}
