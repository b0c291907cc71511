export type Standing = 'urgent' | 'begun';

const standings = new WeakMap<AbortSignal, Standing>();

/** How the operation with this signal waits for its calls' turns (`CallPace`); undefined for a new one. */
export const standingOf = (signal: AbortSignal): Standing | undefined => standings.get(signal);

/**
 * Lets the calls with this signal go before all that wait. For what is seldom, and must not fail because others ask for
 * much: a look at the provider's health, and the removal of what was made in vain.
 *
 * @returns the signal.
 */
export function urgent(signal: AbortSignal): AbortSignal {
  standings.set(signal, 'urgent');
  return signal;
}

/**
 * Lets the calls with this signal wait as long as those of an operation that has begun: behind all who came before, and then
 * before them, so that their turn comes however many there are.
 *
 * @returns the signal.
 */
export function begun(signal: AbortSignal): AbortSignal {
  standings.set(signal, 'begun');
  return signal;
}

/**
 * The turns of a list's calls: the first is that of a new operation; each further one is `begun`, so that a long list
 * keeps nobody waiting for long, and isn't given up halfway because many come.
 */
export class ListTurns {
  private isNew = true;

  /** @param signal the list's. */
  constructor(readonly signal: AbortSignal) {}

  /** The signal of the next call, or of some at once; it aborts with the list's. */
  next(): AbortSignal {
    const turn = AbortSignal.any([this.signal]);
    if (!this.isNew) return begun(turn);
    this.isNew = false;
    return turn;
  }
}
