import { setTimeout as delay } from 'node:timers/promises';
import { ServiceError } from '../../../../../common/service-error.js';

const WINDOW_MS = 60_000;
/**
 * How many wrong secrets a client network may send within a minute before further attempts of that network are slowed
 * down. High enough for several clients that share an address and are configured with a wrong secret.
 */
const MAX_FAILURES = 50;
/** The pause between two checks of secrets from a network that is slowed down, in milliseconds. */
const PAUSE_MS = 100;
const MAX_WAIT_MS = 2_500;
const MAX_NETWORKS = 10_000;

interface Window {
  readonly endsAt: number;
  failures: number;
  /** When the latest of the network's waiting attempts will be checked, by `performance.now()`. */
  lastTurn: number;
}

/**
 * Slows down clients that guess a secret. A minute begins with the first wrong secret from a client network. After 50
 * wrong secrets within the minute, further attempts from that network are checked one every 100 ms until the minute is
 * over, even attempts with the right secret. Those that would wait longer than 2.5 s are refused. Other networks aren't
 * affected. Remembers at most 10,000 networks. If there are more, forgets the one whose minute began first.
 */
export class FailedAttempts {
  private readonly windows = new Map<string, Window>();

  /**
   * Queues the check of a secret from a network. Returns undefined if the secret may be checked at once, otherwise a
   * promise that resolves when the secret may be checked.
   *
   * @throws ServiceError `too-many-requests` when the secret would have to wait longer than 2.5 s.
   */
  turn(network: string): Promise<void> | undefined {
    const window = this.current(network);
    if (window === undefined || window.failures < MAX_FAILURES) return undefined;
    const now = performance.now();
    const turnAt = Math.max(now, window.lastTurn) + PAUSE_MS;
    if (turnAt - now > MAX_WAIT_MS) {
      const retryAfterSeconds = Math.ceil((turnAt - now) / 1000);
      throw new ServiceError('too-many-requests', 'Too many wrong secrets from one address.', { retryAfterSeconds });
    }
    window.lastTurn = turnAt;
    return delay(turnAt - now);
  }

  /** Counts a wrong secret from this network. */
  add(network: string): void {
    const window = this.current(network);
    if (window) {
      window.failures += 1;
      return;
    }
    this.windows.delete(network);
    this.windows.set(network, { endsAt: performance.now() + WINDOW_MS, failures: 1, lastTurn: -Infinity });
    const [oldest] = this.windows.keys();
    if (this.windows.size > MAX_NETWORKS && oldest !== undefined) this.windows.delete(oldest);
  }

  private current(network: string): Window | undefined {
    const window = this.windows.get(network);
    return window && performance.now() < window.endsAt ? window : undefined;
  }
}
