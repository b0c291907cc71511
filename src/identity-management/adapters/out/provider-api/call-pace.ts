import { noLongerAwaited } from '../../../application/ports/awaited.js';
import { ProviderUnavailable } from '../../../domain/errors.js';
import { onAbort } from './abort.js';
import type { RawAnswer } from './api-connections.js';
import type { Operation, Place } from './operation.js';
import { BEGUN_GOES_FIRST_AFTER_MS, FIRST_CALL_WITHIN_MS, LAST_CALL_WITHIN_MS } from './time-budget.js';

interface Limit {
  readonly remaining: number;
  readonly readAt: number;
  /** When the call was sent whose answer reported this state. */
  readonly sentAt: number;
  /** The assumed time until the bucket gets one more token, before it is multiplied by `caution`. */
  readonly refillMs: number;
}

interface Waiter {
  readonly place: Place;
  readonly go: () => void;
}

/** The most calls in flight before an answer reports the limits. Auth0's smallest plan allows two per second. */
const AT_FIRST = 2;
const MIN_REFILL_MS = 10;
const REFILL_AFTER_REFUSAL_MS = 250;
const MAX_CAUTION = 16;
/**
 * The longest pause for one token, or after a 429 without `Retry-After`: in a longer one, others might take each new
 * token.
 */
const MAX_PAUSE_MS = 750;
const JITTER = 0.2;
/** The longest pause after a 429, even if the provider's `Retry-After` is longer. */
const MAX_ABSENCE_MS = 60_000;
/** A limit is remembered this long. By then the bucket is full again, or the tenant has another plan. */
const FORGOTTEN_AFTER_MS = 60_000;
/** Added to the `Date` header, which is rounded down to seconds. Half a second makes the average error smallest. */
const HALF_A_SECOND_MS = 500;

/**
 * Keeps the calls of this process within a provider's rate limits (`x-ratelimit-*` headers, status 429). While a limit
 * is reached, calls wait in one queue, in the order of `Standing`. A call answered with 429 wasn't carried out, and is
 * sent again if its operation may still wait.
 */
export class CallPace {
  /** The limits by bucket size: nothing else in an answer says to which of the limits its headers belong. */
  private readonly limits = new Map<number, Limit>();
  private readonly queue: Waiter[] = [];
  private count = 0;
  private inFlight = 0;
  private isKnown = false;
  /** A factor for the assumed time until a bucket gets its next token, and for the minimum pause after a 429. */
  private caution = 1;
  private refusedAt = -Infinity;
  private closedUntil = -Infinity;
  private resetAt = -Infinity;
  private timer: NodeJS.Timeout | undefined;

  /**
   * Makes a call as soon as the rate limits and the queue allow it, and again after a 429.
   *
   * @param shared is called before the call is made. If it resolves to an answer, no call is made.
   * @throws ProviderUnavailable when the call would have to wait too long, or the signal aborts before or during the
   * wait. The call wasn't made, or was refused with 429. Errors of `send`.
   */
  async run(operation: Operation, send: () => Promise<RawAnswer>, shared?: () => Promise<RawAnswer | undefined> | undefined): Promise<RawAnswer> {
    const place = (operation.place ??= this.placeOf(operation));
    for (;;) {
      await this.admission(place, operation.signal);
      try {
        // A shared answer is awaited only if there is one. Of calls that are released together, the first must be sent
        // at once, so that the others can share its answer.
        const pending = shared?.();
        const sharedAnswer = pending && (await pending);
        if (sharedAnswer) return sharedAnswer;
        const sentAt = performance.now();
        const answer = await send();
        this.learn(answer, sentAt);
        if (answer.status !== 429) {
          place.hasBegun = true;
          return answer;
        }
      } finally {
        this.inFlight--;
        this.moveOn();
      }
    }
  }

  private placeOf({ standing }: Operation): Place {
    const order = standing === 'urgent' ? -Infinity : this.count++;
    return { order, since: performance.now(), hasBegun: standing !== 'new', standing };
  }

  private async admission(place: Place, signal: AbortSignal): Promise<void> {
    const end = place.since + (place.hasBegun ? LAST_CALL_WITHIN_MS : FIRST_CALL_WITHIN_MS);
    if (signal.aborted) throw noLongerAwaited(signal);
    if (Math.max(this.closedUntil, performance.now()) > end) throw this.refusal();
    let timer: NodeJS.Timeout | undefined;
    let stopListening: (() => void) | undefined;
    await new Promise<void>((resolve, reject) => {
      const waiter = { place, go: resolve };
      const leave = (reason: () => Error) => () => {
        const at = this.queue.indexOf(waiter);
        // The call has left the queue already.
        if (at < 0) return;
        this.queue.splice(at, 1);
        reject(reason());
      };
      timer = setTimeout(leave(() => this.refusal()), end - performance.now());
      stopListening = onAbort(signal, leave(() => noLongerAwaited(signal)));
      const behind = this.queue.findIndex((other) => other.place.order > place.order);
      this.queue.splice(behind < 0 ? this.queue.length : behind, 0, waiter);
      this.moveOn();
    }).finally(() => {
      clearTimeout(timer);
      stopListening?.();
    });
  }

  private moveOn(): void {
    clearTimeout(this.timer);
    while (this.queue.length > 0) {
      const wait = this.waitMs();
      if (wait > 0) {
        // If the wait is infinite, the end of a call in flight calls `moveOn` again.
        if (wait < Infinity) this.timer = setTimeout(() => { this.moveOn(); }, wait);
        return;
      }
      this.inFlight++;
      this.queue.splice(this.nextIndex(), 1)[0]?.go();
    }
  }

  /** One search finds an urgent call or a `begun` one that waits long, because urgent calls are ahead of all others. */
  private nextIndex(): number {
    const longAgo = performance.now() - BEGUN_GOES_FIRST_AFTER_MS;
    const isFirst = ({ standing, since }: Place): boolean => standing === 'urgent' || (standing === 'begun' && since < longAgo);
    return Math.max(0, this.queue.findIndex(({ place }) => isFirst(place)));
  }

  /** How long no call is allowed. 0 or less: a call is allowed now. Infinity: none before a call in flight ends. */
  private waitMs(): number {
    const now = performance.now();
    if (!this.isKnown) return this.inFlight < AT_FIRST ? this.closedUntil - now : Infinity;
    let wait = this.closedUntil - now;
    for (const [size, { remaining, readAt, refillMs }] of this.limits) {
      if (now - readAt > FORGOTTEN_AFTER_MS) {
        this.limits.delete(size);
        continue;
      }
      const pause = Math.min(MAX_PAUSE_MS, refillMs * this.caution);
      const left = Math.min(size, remaining + (now - readAt) / pause) - this.inFlight;
      if (left < 1) wait = Math.max(wait, (1 - left) * pause * (1 + JITTER * Math.random()));
    }
    return wait;
  }

  private learn({ status, headers }: RawAnswer, sentAt: number): void {
    const now = performance.now();
    const [size, remaining, reset] = ['limit', 'remaining', 'reset'].map((name) => headerNumber(headers[`x-ratelimit-${name}`]));
    this.isKnown = true;
    if (size !== undefined && size > 0 && remaining !== undefined && reset !== undefined) {
      // According to Auth0's docs, `x-ratelimit-reset` is the time of the bucket's next refill; according to the
      // authors of Auth0's client library, the time when it is full. This code assumes the latter; 429s correct that.
      const resetMs = Math.max(0, reset * 1000 - timeOf(headers));
      const refillMs = Math.max(MIN_REFILL_MS, resetMs / Math.max(1, size - remaining));
      // Answers may arrive in another order than their calls were sent. An older state is ignored.
      if (sentAt >= (this.limits.get(size)?.sentAt ?? -Infinity)) {
        this.limits.set(size, { remaining: status === 429 ? 0 : remaining, readAt: now, sentAt, refillMs });
      }
      this.resetAt = now + resetMs;
    }
    if (status !== 429) {
      this.caution = Math.max(1, this.caution * 0.9);
      return;
    }
    // The 429s of calls that were in flight at the same time count as one.
    if (sentAt > this.refusedAt) {
      this.caution = Math.min(MAX_CAUTION, this.caution * 2);
      this.refusedAt = now;
    }
    const retryAfter = headerNumber(headers['retry-after']);
    const ownPause = Math.min(MAX_PAUSE_MS, REFILL_AFTER_REFUSAL_MS * this.caution);
    // A Retry-After of 0 must not make a loop without a pause.
    const pause = Math.max(ownPause, (retryAfter ?? 0) * 1000);
    this.closedUntil = Math.max(this.closedUntil, now + Math.min(MAX_ABSENCE_MS, pause * (1 + JITTER * Math.random())));
    if (retryAfter !== undefined) this.resetAt = Math.max(this.resetAt, this.closedUntil);
  }

  private refusal(): ProviderUnavailable {
    const seconds = Math.ceil(Math.min(MAX_ABSENCE_MS, this.resetAt - performance.now()) / 1000);
    return new ProviderUnavailable("The provider's rate limit is reached.", seconds > 0 ? { retryAfterSeconds: seconds } : {});
  }
}

function headerNumber(value: string | string[] | undefined): number | undefined {
  return typeof value === 'string' && /^\d{1,12}$/.test(value) ? Number(value) : undefined;
}

/** The time of an answer by the provider's clock (`Date`), as `x-ratelimit-reset`, or else by this machine's. */
function timeOf({ date }: RawAnswer['headers']): number {
  const second = Date.parse(date ?? '');
  return Number.isNaN(second) ? Date.now() : second + HALF_A_SECOND_MS;
}
