import { setTimeout as delay } from 'node:timers/promises';
import { ServiceError } from '../../../../../common/service-error.js';

const WINDOW_MS = 60_000;
/** Attempts are slowed down after this many wrong secrets: enough for several misconfigured clients on one address. */
const MAX_FAILURES = 50;
const PAUSE_MS = 100;
const MAX_WAIT_MS = 2_500;
const MAX_NETWORKS = 10_000;

interface Window {
  readonly endsAt: number;
  failures: number;
  lastCheck: number;
}

/**
 * Slows down clients that guess a secret. After 50 wrong secrets from a network in the minute that begins with the
 * first, its attempts are checked one every 100 ms until the minute is over, even those with the right secret.
 * Remembers at most 10,000 networks.
 */
export class FailedAttempts {
  private readonly windows = new Map<string, Window>();

  /**
   * Returns undefined if a secret may be checked at once; otherwise a promise that resolves when it may be checked.
   *
   * @throws ServiceError `too-many-requests` when the secret would have to wait longer than 2.5 s.
   */
  pause(network: string): Promise<void> | undefined {
    const window = this.current(network);
    if (window === undefined || window.failures < MAX_FAILURES) return undefined;
    const now = performance.now();
    const checkAt = Math.max(now, window.lastCheck) + PAUSE_MS;
    if (checkAt - now > MAX_WAIT_MS) {
      const retryAfterSeconds = Math.ceil((checkAt - now) / 1000);
      throw new ServiceError('too-many-requests', 'Too many wrong secrets from one address.', { retryAfterSeconds });
    }
    window.lastCheck = checkAt;
    return delay(checkAt - now);
  }

  add(network: string): void {
    const window = this.current(network);
    if (window) {
      window.failures += 1;
      return;
    }
    this.windows.delete(network);
    this.windows.set(network, { endsAt: performance.now() + WINDOW_MS, failures: 1, lastCheck: -Infinity });
    const [oldest] = this.windows.keys();
    if (this.windows.size > MAX_NETWORKS && oldest !== undefined) this.windows.delete(oldest);
  }

  private current(network: string): Window | undefined {
    const window = this.windows.get(network);
    return window && performance.now() < window.endsAt ? window : undefined;
  }
}
