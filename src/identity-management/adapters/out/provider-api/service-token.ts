import { noLongerAwaited } from '../../../application/ports/awaited.js';
import { onAbort } from './abort.js';

export interface IssuedToken {
  readonly value: string;
  readonly expiresInSeconds: number;
}

const MARGIN_SECONDS = 30;
/**
 * The minimum time between discarding two tokens for the same reason, because the newer one may be no better. Doesn't
 * apply to a refused token if the provider has accepted one since the previous refusal.
 */
const ANOTHER_EVERY_MS = { refused: 10_000, outdated: 60_000 } as const;

/** The access token of a service account, shared by all calls. */
export class ServiceToken {
  private current: { readonly value: string; readonly usedUntil: number } | undefined;
  private pending: Promise<string> | undefined;
  private readonly discardedAt = { refused: -Infinity, outdated: -Infinity };

  /** @param issue requests a new token, within its own time limit. */
  constructor(private readonly issue: () => Promise<IssuedToken>) {}

  /**
   * Returns the current token, or a new one if there is none or it is about to expire.
   *
   * @throws errors of `issue`; ProviderUnavailable when the signal aborts during the wait. Other callers go on waiting.
   */
  async get(signal: AbortSignal): Promise<string> {
    if (this.current && performance.now() < this.current.usedUntil) return this.current.value;
    return await this.getNew(signal);
  }

  /**
   * Stops using a token that the provider refused, or that may not have a permission granted after it was issued.
   * Returns whether a newer token may help; if not, the token stays in use.
   */
  discard(value: string, reason: 'refused' | 'outdated'): boolean {
    if (this.current?.value !== value) return true;
    const now = performance.now();
    if (now - this.discardedAt[reason] < ANOTHER_EVERY_MS[reason]) return false;
    this.discardedAt[reason] = now;
    this.current = undefined;
    return true;
  }

  /** Records that the provider accepted the token. A later refusal then discards it at once. */
  accepted(value: string): void {
    if (this.current?.value === value) this.discardedAt.refused = -Infinity;
  }

  /**
   * Requests a new token. Until it has arrived, `get` goes on returning a valid current one.
   *
   * @throws as `get`.
   */
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
