/**
 * How the calls of an operation wait for their turn (`CallPace`).
 *
 * - `new`: the calls wait like those of any new operation.
 * - `begun`: the calls wait as long as those of a started operation. At the beginning they wait behind all operations
 *   that arrived earlier, and later they go before these, so that their turn comes however many operations there are.
 * - `urgent`: the calls go before all waiting ones. For rare calls that must not fail because of a high load: a health
 *   check, and the first attempt to remove what a failed creation left.
 */
export type Standing = 'new' | 'begun' | 'urgent';

/** An operation's place in the queue of a `CallPace`. */
export interface Place {
  /** The operation's position in the order of arrival. Urgent operations come before all others. */
  readonly order: number;
  readonly since: number;
  hasBegun: boolean;
  readonly standing: Standing;
}

/** An operation at the provider, which may take several calls. */
export class Operation {
  /** The operation's place in the queue of the `CallPace`, assigned with the operation's first call. */
  place: Place | undefined;

  /** @param signal aborts when nobody waits for the operation any more. Default: never. */
  constructor(
    readonly signal: AbortSignal = new AbortController().signal,
    readonly standing: Standing = 'new',
  ) {}
}

/**
 * The operations of the calls that read a list: a separate operation for each turn. The first operation is `new`; each
 * further one is `begun`. So a long list doesn't block other operations for long, and isn't given up halfway when many
 * operations arrive.
 */
export class ListTurns {
  private isNew = true;

  /** @param signal aborts when nobody waits for the list any more. */
  constructor(readonly signal: AbortSignal) {}

  /** Returns the operation of the list's next call, or of several simultaneous calls. */
  next(): Operation {
    const standing = this.isNew ? 'new' : 'begun';
    this.isNew = false;
    return new Operation(this.signal, standing);
  }
}
