import { setTimeout as delay } from 'node:timers/promises';
import { createRemoteJWKSet, customFetch, type RemoteJWKSet } from 'jose';
import { ServiceError } from '../common/service-error.js';
import { fetchFrom, urlOf, type KeySetSource } from './key-set-source.js';
import { verificationKeys, type VerificationKey } from './verification-key.js';

/** All in milliseconds. */
export interface KeySetTimes {
  /** How long a fetched set counts as current; 10 minutes unless told. */
  readonly maxAgeMs?: number;
  /** After a fetch: how long an unknown `kid` leads to no other, and after a failed one nothing does; 5 seconds unless told. */
  readonly cooldownMs?: number;
  /** How long known keys stay in use while no fetch works, counted from the last that did; 1 hour unless told. */
  readonly maxStaleMs?: number;
  /** How long one fetch may take, to the last byte; 3 seconds unless told. */
  readonly timeoutMs?: number;
}

const MOMENT_MS = 500;

/** An issuer's keys by `kid`. However many ask for unknown ones, there is one fetch at a time and few in all. */
export class KeySet {
  readonly #remote: RemoteJWKSet;
  readonly #maxAgeMs: number;
  readonly #cooldownMs: number;
  readonly #maxStaleMs: number;
  #keys: ReadonlyMap<string, VerificationKey> = new Map();
  #loadedAt = -Infinity;
  #failure: { readonly at: number; readonly cause: unknown } | undefined;
  #pending: Promise<void> | undefined;

  constructor(source: KeySetSource, times: KeySetTimes = {}) {
    this.#maxAgeMs = times.maxAgeMs ?? 600_000;
    this.#cooldownMs = times.cooldownMs ?? 5_000;
    this.#maxStaleMs = times.maxStaleMs ?? 3_600_000;
    this.#remote = createRemoteJWKSet(urlOf(source), {
      [customFetch]: fetchFrom(source),
      timeoutDuration: times.timeoutMs ?? 3_000,
    });
  }

  /**
   * @throws ServiceError `unauthorized` when the issuer has no such key; `provider-unavailable` when that can't be
   * told, because its key set can't be had.
   */
  async find(kid: string): Promise<VerificationKey> {
    const enough = this.#keys.has(kid) ? this.#maxAgeMs : this.#cooldownMs;
    if (Date.now() >= this.#loadedAt + enough) await this.#refreshed(kid);
    const key = this.#keys.get(kid);
    if (!this.#failure) {
      if (key) return key;
      throw new ServiceError('unauthorized', 'The issuer has no such key.');
    }
    if (key && Date.now() < this.#loadedAt + this.#maxStaleMs) return key;
    throw this.#unavailable(this.#failure);
  }

  /** Waits for a fetch, but for a key that is known and good enough only a moment: its tokens need not wait for a silent issuer. */
  async #refreshed(kid: string): Promise<void> {
    const refreshed = this.#refresh();
    const isGoodEnough = this.#keys.has(kid) && Date.now() < this.#loadedAt + this.#maxStaleMs;
    await (isGoodEnough ? Promise.race([refreshed, delay(MOMENT_MS, undefined, { ref: false })]) : refreshed);
  }

  /** Fetches the set unless a fetch failed lately; leaves the outcome in `#failure`. */
  async #refresh(): Promise<void> {
    if (this.#failure && Date.now() < this.#failure.at + this.#cooldownMs) return;
    this.#pending ??= this.#reload().finally(() => (this.#pending = undefined));
    await this.#pending;
  }

  async #reload(): Promise<void> {
    try {
      await this.#remote.reload();
      this.#keys = verificationKeys(this.#remote.jwks() ?? { keys: [] });
      this.#loadedAt = Date.now();
      this.#failure = undefined;
    } catch (cause) {
      this.#failure = { at: Date.now(), cause };
    }
  }

  #unavailable({ at, cause }: { readonly at: number; readonly cause: unknown }): ServiceError {
    const retryAfterSeconds = Math.max(1, Math.ceil((at + this.#cooldownMs - Date.now()) / 1000));
    return new ServiceError('provider-unavailable', "The issuer's keys can't be had.", { cause, retryAfterSeconds });
  }
}
