export type Standing = 'urgent' | 'begun';

const standings = new WeakMap<AbortSignal, Standing>();

/** How the operation with this signal waits for its turns (`CallPace`); undefined for a new operation. */
export const standingOf = (signal: AbortSignal): Standing | undefined => standings.get(signal);

/**
 * Lets the calls with this signal go before all waiting calls. For rare calls that must not fail because of a high
 * load: a health check, and the removal of a failed creation's remnants.
 *
 * @returns the signal.
 */
export function urgent(signal: AbortSignal): AbortSignal {
  standings.set(signal, 'urgent');
  return signal;
}

/**
 * Lets the calls with this signal wait as long as those of a started operation. They first wait behind all earlier
 * operations and later go before them, so that their turn comes however many operations there are.
 *
 * @returns the signal.
 */
export function begun(signal: AbortSignal): AbortSignal {
  standings.set(signal, 'begun');
  return signal;
}

/**
 * The turns of a list's calls. The first call is a new operation; each further one is `begun`. So a long list doesn't
 * block others for long, and isn't given up halfway when many operations arrive.
 */
export class ListTurns {
  private isNew = true;

  /** @param signal the signal of the list. */
  constructor(readonly signal: AbortSignal) {}

  /** The signal for the next call, or for several simultaneous calls. It aborts with the list's signal. */
  next(): AbortSignal {
    const turn = AbortSignal.any([this.signal]);
    if (!this.isNew) return begun(turn);
    this.isNew = false;
    return turn;
  }
}
