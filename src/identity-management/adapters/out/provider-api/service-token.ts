import { noLongerAwaited } from '../../../application/ports/awaited.js';
import { onAbort } from './abort.js';

export interface IssuedToken {
  readonly value: string;
  readonly expiresInSeconds: number;
}

/**
 * How long before its expiry a token is no longer used, in seconds. Half of the token's lifetime if that is shorter.
 */
const MARGIN_SECONDS = 30;
/**
 * The minimum time between two tokens that are discarded for the same reason, refused or outdated, in milliseconds. A
 * new token may be no better.
 */
const ANOTHER_EVERY_MS = { refused: 10_000, outdated: 60_000 } as const;

/** The one access token of a service account, shared by all calls. Simultaneous requests for a new token are merged. */
export class ServiceToken {
  private current: { readonly value: string; readonly usedUntil: number } | undefined;
  private pending: Promise<string> | undefined;
  /** When a token was last discarded for each reason. */
  private readonly discardedAt = { refused: -Infinity, outdated: -Infinity };

  /** @param issue requests a new token from the provider, within its own time limit. */
  constructor(private readonly issue: () => Promise<IssuedToken>) {}

  /**
   * Returns a token that isn't about to expire.
   *
   * @throws errors of `issue`; ProviderUnavailable when the caller's signal aborts. Other callers then go on waiting
   * for the same token.
   */
  async get(signal: AbortSignal): Promise<string> {
    if (this.current && performance.now() < this.current.usedUntil) return this.current.value;
    return await this.getNew(signal);
  }

  /**
   * Stops using a token that was refused, or that may be outdated. An outdated token lacks a permission and may have
   * been issued before that permission was granted.
   *
   * @returns whether a newer token may help. False if a token was discarded for the same reason shortly before: within
   * one minute for an outdated token, and within ten seconds for a refused one unless a token has been accepted since.
   */
  discard(value: string, reason: 'refused' | 'outdated'): boolean {
    if (this.current?.value !== value) return true;
    const now = performance.now();
    if (now - this.discardedAt[reason] < ANOTHER_EVERY_MS[reason]) return false;
    this.discardedAt[reason] = now;
    this.current = undefined;
    return true;
  }

  /** Records that a call succeeded with this token. If the token is refused later, a new one may be accepted. */
  accepted(value: string): void {
    if (this.current?.value === value) this.discardedAt.refused = -Infinity;
  }

  /**
   * Returns a token that nobody had before this call. The current token stays in use until the new one has arrived.
   * Throws the same errors as `get`.
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
