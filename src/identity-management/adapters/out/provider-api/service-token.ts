import { noLongerAwaited } from '../../../application/ports/awaited.js';
import { onAbort } from './abort.js';

export interface IssuedToken {
  readonly value: string;
  readonly expiresInSeconds: number;
}

/** The last part of a token's lifetime in which it is no longer used, in seconds; at most half of the lifetime. */
const MARGIN_SECONDS = 30;
/**
 * The minimum time between discarding two tokens for the same reason, refused or outdated, in milliseconds. Needed
 * because the newer token may be no better than the discarded one. It doesn't apply to a refused token if the provider
 * has accepted a token since the previous refusal.
 */
const ANOTHER_EVERY_MS = { refused: 10_000, outdated: 60_000 } as const;

/**
 * The access token of a service account, shared by all calls. Simultaneous needs for a new token lead to one request.
 */
export class ServiceToken {
  private current: { readonly value: string; readonly usedUntil: number } | undefined;
  private pending: Promise<string> | undefined;
  /** When a token was last discarded for each reason. */
  private readonly discardedAt = { refused: -Infinity, outdated: -Infinity };

  /** @param issue requests a new token from the provider, within its own time limit. */
  constructor(private readonly issue: () => Promise<IssuedToken>) {}

  /**
   * Returns the current token, or a new one if there is none or it is about to expire.
   *
   * @throws errors of `issue`; ProviderUnavailable when the signal aborts during the wait for a new token. Other
   * callers go on waiting for it.
   */
  async get(signal: AbortSignal): Promise<string> {
    if (this.current && performance.now() < this.current.usedUntil) return this.current.value;
    return await this.getNew(signal);
  }

  /**
   * Stops using a token that the provider refused, or that may be outdated: it lacks a permission that may have been
   * granted after it was issued. If this returns false, the token stays in use.
   *
   * @returns whether a newer token may help. Always true if this token is no longer the current one. Otherwise false if
   * the previous token was discarded for the same reason shortly before: less than a minute ago as outdated; or less
   * than ten seconds ago as refused, and the provider has accepted no token since.
   */
  discard(value: string, reason: 'refused' | 'outdated'): boolean {
    if (this.current?.value !== value) return true;
    const now = performance.now();
    if (now - this.discardedAt[reason] < ANOTHER_EVERY_MS[reason]) return false;
    this.discardedAt[reason] = now;
    this.current = undefined;
    return true;
  }

  /** Records that the provider accepted this token. If the provider refuses it later, `discard` discards it at once. */
  accepted(value: string): void {
    if (this.current?.value === value) this.discardedAt.refused = -Infinity;
  }

  /**
   * Returns a new token, even if the current one is still valid. Until the new one has arrived, `get` goes on returning
   * a valid current one. Throws the same errors as `get`.
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
