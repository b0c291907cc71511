import { setTimeout as delay } from 'node:timers/promises';
import { createRemoteJWKSet, customFetch, type RemoteJWKSet } from 'jose';
import { KNOWN_KEY_WAIT_MS } from '../common/answer-times.js';
import { ServiceError } from '../common/service-error.js';
import { fetchFrom, urlOf, type KeySetSource } from './key-set-source.js';
import { verificationKeys, type VerificationKey } from './verification-key.js';

export interface KeySetTimes {
  /** How long a fetched key set counts as current (default: 10 minutes). */
  readonly maxAgeMs?: number;
  /**
   * The cool-down: the minimum time between a fetch and the next one for an unknown key, and between a failed fetch and
   * any other. Default: 2 seconds; 0 if the keys come from this process.
   */
  readonly cooldownMs?: number;
  /** How long known keys stay in use while fetches fail, from the last successful fetch on (default: 1 hour). */
  readonly maxStaleMs?: number;
  /** How long one fetch may take, including the last byte of the answer (default: 3 seconds). */
  readonly timeoutMs?: number;
}

const MAX_WAITING = 1_000;

/**
 * An issuer's keys by `kid`. An unknown `kid` usually causes another fetch, because the issuer may have new keys.
 * Lookups that need a fetch during the cool-down after a successful one share it, at the end of the cool-down.
 */
export class KeySet {
  readonly #remote: RemoteJWKSet;
  readonly #maxAgeMs: number;
  readonly #cooldownMs: number;
  readonly #maxStaleMs: number;
  #keys: ReadonlyMap<string, VerificationKey> = new Map();
  #loadedAt = -Infinity;
  #loadedOn = -Infinity;
  #failure: { readonly at: number; readonly cause: unknown } | undefined;
  #pending: Promise<void> | undefined;
  #endOfCooldown: Promise<void> | undefined;
  #waiting = 0;
  #sought = new Set<string>();
  /**
   * The unknown `kid`s that the last fetch looked for. Those that aren't in `#keys` have no usable key. Empty during a
   * fetch and after a failed one.
   */
  #absent: ReadonlySet<string> = new Set();

  constructor(source: KeySetSource, times: KeySetTimes = {}) {
    this.#maxAgeMs = times.maxAgeMs ?? 600_000;
    this.#cooldownMs = times.cooldownMs ?? ('load' in source ? 0 : 2_000);
    this.#maxStaleMs = times.maxStaleMs ?? 3_600_000;
    const timeoutMs = times.timeoutMs ?? 3_000;
    this.#remote = createRemoteJWKSet(urlOf(source), {
      [customFetch]: fetchFrom(source, timeoutMs),
      timeoutDuration: timeoutMs,
    });
  }

  /**
   * Finds a key by its `kid`. For an unknown key, waits at most for a fetch in progress, the end of the cool-down and
   * one more fetch. For a known key, waits at most half a second, unless the key is older than `maxStaleMs`.
   *
   * @param whenUnknown is called before the wait for an unknown key. If it throws, nothing is fetched.
   * @throws ServiceError `unauthorized` when the issuer has no usable key with this `kid`.
   * @throws ServiceError `provider-unavailable` when 1,000 lookups already wait for the next fetch, or when the key set
   * can't be fetched and the key is unknown or older than `maxStaleMs`.
   * @throws errors of `whenUnknown`.
   */
  async find(kid: string, whenUnknown?: () => void): Promise<VerificationKey> {
    if (!this.#keys.has(kid)) {
      whenUnknown?.();
      await this.#seek(kid);
    } else if (this.#ageMs >= this.#maxAgeMs) await this.#refreshed(kid);
    const key = this.#keys.get(kid);
    if (!this.#failure) {
      if (key) return key;
      throw new ServiceError('unauthorized', 'The issuer has no such key.');
    }
    if (key && this.#ageMs < this.#maxStaleMs) return key;
    throw this.#unavailable(this.#failure.at, this.#failure.cause);
  }

  /**
   * Fetches the keys if no known key may be used. Resolves even if the fetched key set has no usable key.
   *
   * @throws ServiceError `provider-unavailable` when no known key may be used, and the last fetch failed.
   */
  async checkHealth(): Promise<void> {
    const isStale = () => this.#ageMs >= this.#maxStaleMs;
    if (this.#keys.size > 0 && !isStale()) return;
    if (this.#failure || isStale()) await this.#refresh();
    if (this.#failure) throw this.#unavailable(this.#failure.at, this.#failure.cause);
  }

  async #seek(kid: string): Promise<void> {
    await this.#pending;
    const isSettled = this.#keys.has(kid) || this.#absent.has(kid) || this.#failure !== undefined;
    if (isSettled && this.#cooldownLeft() > 0) return;
    if (this.#waiting >= MAX_WAITING) throw this.#unavailable(this.#loadedAt, undefined);
    this.#waiting += 1;
    this.#sought.add(kid);
    try {
      await this.#cooldown();
      await this.#refresh();
    } finally {
      this.#waiting -= 1;
    }
  }

  /**
   * The time since the last successful fetch, by the clock that has advanced further: `performance.now()` stands still
   * while the machine is suspended, and the system clock may be set back.
   */
  get #ageMs(): number {
    return Math.max(performance.now() - this.#loadedAt, Date.now() - this.#loadedOn);
  }

  #cooldownLeft(): number {
    return this.#loadedAt + this.#cooldownMs - performance.now();
  }

  async #cooldown(): Promise<void> {
    const left = this.#cooldownLeft();
    if (left <= 0) return;
    this.#endOfCooldown ??= delay(left, undefined, { ref: false }).finally(() => (this.#endOfCooldown = undefined));
    await this.#endOfCooldown;
  }

  /**
   * Fetches the keys again, unless that just failed. Waits at most half a second if the known key may still be used.
   */
  async #refreshed(kid: string): Promise<void> {
    const refreshed = this.#refresh();
    const isGoodEnough = this.#keys.has(kid) && this.#ageMs < this.#maxStaleMs;
    await (isGoodEnough ? Promise.race([refreshed, delay(KNOWN_KEY_WAIT_MS, undefined, { ref: false })]) : refreshed);
  }

  async #refresh(): Promise<void> {
    if (this.#failure && performance.now() < this.#failure.at + this.#cooldownMs) return;
    this.#pending ??= this.#reload().finally(() => (this.#pending = undefined));
    await this.#pending;
  }

  async #reload(): Promise<void> {
    const sought = this.#sought;
    this.#sought = new Set();
    this.#absent = new Set();
    try {
      await this.#remote.reload();
      this.#absent = sought;
      this.#keys = verificationKeys(this.#remote.jwks() ?? { keys: [] });
      this.#loadedAt = performance.now();
      this.#loadedOn = Date.now();
      this.#failure = undefined;
    } catch (cause) {
      this.#failure = { at: performance.now(), cause };
    }
  }

  #unavailable(at: number, cause: unknown): ServiceError {
    const retryAfterSeconds = Math.max(1, Math.ceil((at + this.#cooldownMs - performance.now()) / 1000));
    return new ServiceError('provider-unavailable', "The issuer's keys are unavailable.", { cause, retryAfterSeconds });
  }
}
