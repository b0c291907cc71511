import { noLongerAwaited } from '../../../application/ports/awaited.js';
import { onAbort } from './abort.js';

export interface IssuedToken {
  readonly value: string;
  readonly expiresInSeconds: number;
}

/** How long before its end a token is no longer used; half of its life where that is shorter. */
const MARGIN_SECONDS = 30;
/** How soon another token is asked for in place of one that did no good: the next one may do no better. */
const ANOTHER_EVERY_MS = { refused: 10_000, outdated: 60_000 } as const;

/** The one access token of a service account, shared by all calls. However many need a new one, one is asked for. */
export class ServiceToken {
  private current: { readonly value: string; readonly usedUntil: number } | undefined;
  private pending: Promise<string> | undefined;
  /** When one was last discarded for that. */
  private readonly discardedAt = { refused: -Infinity, outdated: -Infinity };

  /** @param issue gets a token, within a time of its own. */
  constructor(private readonly issue: () => Promise<IssuedToken>) {}

  /**
   * A token that is still good for a while.
   *
   * @throws what `issue` does; ProviderUnavailable when the signal aborts, while others may wait on.
   */
  async get(signal: AbortSignal): Promise<string> {
    if (this.current && performance.now() < this.current.usedUntil) return this.current.value;
    return await this.getNew(signal);
  }

  /**
   * No longer gives this token: it was refused, or may be outdated, as it permits less than is needed and may have been
   * issued before we were permitted more.
   *
   * @returns whether the next one may do better; false for a while after that was tried: for a minute with an outdated one,
   * for ten seconds with a refused one unless a token was accepted since.
   */
  discard(value: string, reason: 'refused' | 'outdated'): boolean {
    if (this.current?.value !== value) return true;
    const now = performance.now();
    if (now - this.discardedAt[reason] < ANOTHER_EVERY_MS[reason]) return false;
    this.discardedAt[reason] = now;
    this.current = undefined;
    return true;
  }

  /** Is told that a call succeeded with this token: if it is refused later, another one may be accepted. */
  accepted(value: string): void {
    if (this.current?.value === value) this.discardedAt.refused = -Infinity;
  }

  /** One that nobody had before the call, in place of the current one, which stays in use until it is there; otherwise as `get`. */
  async getNew(signal: AbortSignal): Promise<string> {
    this.pending ??= this.renew().finally(() => (this.pending = undefined));
    return await awaitedBy(signal, this.pending);
  }

  private async renew(): Promise<string> {
    const asked = performance.now();
    const { value, expiresInSeconds } = await this.issue();
    const margin = Math.min(MARGIN_SECONDS, expiresInSeconds / 2);
    this.current = { value, usedUntil: asked + (expiresInSeconds - margin) * 1000 };
    return value;
  }
}

function awaitedBy<Result>(signal: AbortSignal, work: Promise<Result>): Promise<Result> {
  return new Promise<Result>((resolve, reject) => {
    const stopListening = onAbort(signal, () => {
      reject(noLongerAwaited(signal));
    });
    void work.then(resolve, reject).finally(stopListening);
  });
}
