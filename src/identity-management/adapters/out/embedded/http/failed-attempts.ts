import { ServiceError } from '../../../../../common/service-error.js';

const WINDOW_MS = 60_000;
/** Enough for clients that share an address and got a wrong secret; against 16 characters of it, as good as none. */
const MAX_FAILURES = 50;
const MAX_NETWORKS = 10_000;

/**
 * Limits how often one client network may show a wrong secret: 50 times in a minute, counted from the first. Then nothing
 * is compared for that network until the minute is over. Other networks aren't affected. Keeps at most 10,000 networks; the
 * one that failed first goes first.
 */
export class FailedAttempts {
  private readonly windows = new Map<string, { readonly endsAt: number; failures: number }>();

  /** @throws ServiceError `too-many-requests`, with the seconds until the minute is over. */
  assertAllowed(network: string): void {
    const window = this.current(network);
    if (window === undefined || window.failures < MAX_FAILURES) return;
    const retryAfterSeconds = Math.max(1, Math.ceil((window.endsAt - performance.now()) / 1000));
    throw new ServiceError('too-many-requests', 'Too many wrong secrets from one address.', { retryAfterSeconds });
  }

  /** Counts a wrong secret. */
  add(network: string): void {
    const window = this.current(network);
    if (window) {
      window.failures += 1;
      return;
    }
    this.windows.delete(network);
    this.windows.set(network, { endsAt: performance.now() + WINDOW_MS, failures: 1 });
    const [oldest] = this.windows.keys();
    if (this.windows.size > MAX_NETWORKS && oldest !== undefined) this.windows.delete(oldest);
  }

  private current(network: string) {
    const window = this.windows.get(network);
    return window && performance.now() < window.endsAt ? window : undefined;
  }
}
