import { noLongerAwaited } from '../../../application/ports/awaited.js';
import { ProviderUnavailable } from '../../../domain/errors.js';
import { onAbort } from './abort.js';
import type { RawAnswer } from './api-connections.js';
import type { Operation, Place } from './operation.js';
import { BEGUN_GOES_FIRST_AFTER_MS, FIRST_CALL_WITHIN_MS, LAST_CALL_WITHIN_MS } from './time-budget.js';

/** The known state of one of the provider's rate limits. A limit is a token bucket: each call takes a token. */
interface Limit {
  /** How many calls the bucket had left at the time `readAt`. */
  readonly remaining: number;
  readonly readAt: number;
  /** When the call was sent whose answer reported this state, by `performance.now()`. */
  readonly sentAt: number;
  /** How long until the limit's token bucket has one more token, in milliseconds. */
  readonly refillMs: number;
}

interface Waiter {
  readonly place: Place;
  readonly go: () => void;
}

/**
 * The most simultaneous calls until the first answer, which may report the provider's rate limits. Auth0's smallest
 * plan allows two calls per second.
 */
const AT_FIRST = 2;
const SHORTEST_REFILL_MS = 10;
const REFILL_AFTER_REFUSAL_MS = 250;
const MOST_CAUTION = 16;
/**
 * The longest pause between two calls once a rate limit is reached, in milliseconds. The bound applies even if other
 * processes keep taking the calls that become free, because with longer pauses those processes would take all of them.
 */
const LONGEST_PAUSE_MS = 750;
const JITTER = 0.2;
/**
 * The longest pause after a 429, whatever the provider says, in milliseconds. After that, the provider is called again.
 */
const LONGEST_ABSENCE_MS = 60_000;
/**
 * How long a rate limit is remembered that no answer has reported since, in milliseconds. Such a limit may belong to a
 * plan that no longer applies. If it still applies, its bucket is full again by then.
 */
const FORGOTTEN_AFTER_MS = 60_000;
/**
 * Added to the time in the provider's `Date` header. That header has whole seconds, so adding half a second makes the
 * expected error smallest.
 */
const HALF_A_SECOND_MS = 500;

/**
 * Keeps the calls of this process within a provider's rate limits (`x-ratelimit-*` headers, status 429). All calls
 * share one view of the limits, and calls wait in one queue while a limit is reached.
 *
 * The operation that arrived first goes first, so that started operations finish. A new operation gives up waiting
 * sooner than a started one, so a started operation reaches the head of the queue however many new ones arrive. A turn
 * of work already begun (`begun`), such as the next page of a list, goes before all calls except urgent ones once that
 * turn has waited for about four seconds. A call answered with 429 wasn't carried out and is sent again.
 */
export class CallPace {
  /** The known rate limits by bucket size, because nothing else in an answer tells the provider's limits apart. */
  private readonly limits = new Map<number, Limit>();
  private readonly line: Waiter[] = [];
  private count = 0;
  private underWay = 0;
  private isKnown = false;
  /**
   * The factor by which the assumed time to refill a bucket by one call is multiplied. Doubles with each 429, up to 16,
   * and shrinks with every other answer, down to 1.
   */
  private caution = 1;
  private refusedAt = -Infinity;
  private closedUntil = -Infinity;
  private resetAt = -Infinity;
  private timer: NodeJS.Timeout | undefined;

  /**
   * Makes a call when its turn comes, and again after a 429.
   *
   * @param shared is called at each turn. Returns the answer to another caller's call, if there is one by then that
   * makes this call unnecessary. Such an answer takes a turn, but no call.
   * @throws ProviderUnavailable when the turn would come too late, or the signal aborts before the turn. The call
   * wasn't made, or was refused with 429. `retryAfterSeconds` is the time until the provider accepts calls again, if
   * known, and at most one minute. Also throws errors of `send`.
   */
  async run(operation: Operation, send: () => Promise<RawAnswer>, shared?: () => Promise<RawAnswer | undefined> | undefined): Promise<RawAnswer> {
    const place = (operation.place ??= this.placeOf(operation));
    for (;;) {
      await this.turn(place, operation.signal);
      try {
        // There is an await only if there is a shared answer. So if several calls for the same read are released
        // together, the first is sent at once, and the others share its answer.
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
        this.underWay--;
        this.moveOn();
      }
    }
  }

  private placeOf({ standing }: Operation): Place {
    const order = standing === 'urgent' ? -Infinity : this.count++;
    return { order, since: performance.now(), hasBegun: standing !== 'new', standing };
  }

  private async turn(place: Place, signal: AbortSignal): Promise<void> {
    const end = place.since + (place.hasBegun ? LAST_CALL_WITHIN_MS : FIRST_CALL_WITHIN_MS);
    if (signal.aborted) throw noLongerAwaited(signal);
    if (Math.max(this.closedUntil, performance.now()) > end) throw this.refusal();
    let timer: NodeJS.Timeout | undefined;
    let stopListening: (() => void) | undefined;
    await new Promise<void>((resolve, reject) => {
      const waiter = { place, go: resolve };
      const leave = (reason: () => Error) => () => {
        const at = this.line.indexOf(waiter);
        // The turn may have come in the meantime.
        if (at < 0) return;
        this.line.splice(at, 1);
        reject(reason());
      };
      timer = setTimeout(leave(() => this.refusal()), end - performance.now());
      stopListening = onAbort(signal, leave(() => noLongerAwaited(signal)));
      const behind = this.line.findIndex((other) => other.place.order > place.order);
      this.line.splice(behind < 0 ? this.line.length : behind, 0, waiter);
      this.moveOn();
    }).finally(() => {
      clearTimeout(timer);
      stopListening?.();
    });
  }

  /** Releases all waiting calls whose turn it is. Sets a timer for the next turn. */
  private moveOn(): void {
    clearTimeout(this.timer);
    while (this.line.length > 0) {
      const wait = this.waitMs();
      if (wait > 0) {
        // If the wait is infinite, the next turn comes only when an answer arrives.
        if (wait < Infinity) this.timer = setTimeout(() => { this.moveOn(); }, wait);
        return;
      }
      this.underWay++;
      this.line.splice(this.nextIndex(), 1)[0]?.go();
    }
  }

  /** The index in the queue of the waiting call to release next. Urgent calls are at the head of the queue. */
  private nextIndex(): number {
    const longAgo = performance.now() - BEGUN_GOES_FIRST_AFTER_MS;
    const isFirst = ({ standing, since }: Place): boolean => standing === 'urgent' || (standing === 'begun' && since < longAgo);
    return Math.max(0, this.line.findIndex(({ place }) => isFirst(place)));
  }

  /**
   * How long until one more call may be made, as far as the rate limits are known, in milliseconds. 0 or less: the call
   * may be made now. Infinity: no answer has arrived yet, and AT_FIRST calls are in flight.
   */
  private waitMs(): number {
    const now = performance.now();
    if (!this.isKnown) return this.underWay < AT_FIRST ? this.closedUntil - now : Infinity;
    let wait = this.closedUntil - now;
    for (const [size, { remaining, readAt, refillMs }] of this.limits) {
      if (now - readAt > FORGOTTEN_AFTER_MS) {
        this.limits.delete(size);
        continue;
      }
      const pause = Math.min(LONGEST_PAUSE_MS, refillMs * this.caution);
      const left = Math.min(size, remaining + (now - readAt) / pause) - this.underWay;
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
      // authors of Auth0's client library, the time when the bucket is full. This code assumes the latter, and 429s
      // correct the assumption.
      const resetMs = Math.max(0, reset * 1000 - timeOf(headers));
      const refillMs = Math.max(SHORTEST_REFILL_MS, resetMs / Math.max(1, size - remaining));
      // Answers may arrive out of order. A limit's state is ignored if a call that was sent later has already reported
      // it.
      if (sentAt >= (this.limits.get(size)?.sentAt ?? -Infinity)) {
        this.limits.set(size, { remaining: status === 429 ? 0 : remaining, readAt: now, sentAt, refillMs });
      }
      this.resetAt = now + resetMs;
    }
    if (status !== 429) {
      this.caution = Math.max(1, this.caution * 0.9);
      return;
    }
    // Several 429s for calls that were in flight together count as one refusal.
    if (sentAt > this.refusedAt) {
      this.caution = Math.min(MOST_CAUTION, this.caution * 2);
      this.refusedAt = now;
    }
    const retryAfter = headerNumber(headers['retry-after']);
    const pause = retryAfter === undefined ? Math.min(LONGEST_PAUSE_MS, REFILL_AFTER_REFUSAL_MS * this.caution) : retryAfter * 1000;
    this.closedUntil = Math.max(this.closedUntil, now + Math.min(LONGEST_ABSENCE_MS, pause * (1 + JITTER * Math.random())));
    if (retryAfter !== undefined) this.resetAt = Math.max(this.resetAt, this.closedUntil);
  }

  private refusal(): ProviderUnavailable {
    const seconds = Math.ceil(Math.min(LONGEST_ABSENCE_MS, this.resetAt - performance.now()) / 1000);
    return new ProviderUnavailable('The provider takes no more calls for now.', seconds > 0 ? { retryAfterSeconds: seconds } : {});
  }
}

function headerNumber(value: string | string[] | undefined): number | undefined {
  return typeof value === 'string' && /^\d{1,12}$/.test(value) ? Number(value) : undefined;
}

/**
 * When the provider sent an answer, in milliseconds since 1970. By the provider's clock if the answer has a `Date`
 * header, because `x-ratelimit-reset` uses that clock; otherwise by this machine's clock.
 */
function timeOf({ date }: RawAnswer['headers']): number {
  const second = Date.parse(date ?? '');
  return Number.isNaN(second) ? Date.now() : second + HALF_A_SECOND_MS;
}
