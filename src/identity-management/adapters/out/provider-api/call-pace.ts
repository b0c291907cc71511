import { assertAwaited, noLongerAwaited } from '../../../application/ports/awaited.js';
import { ProviderUnavailable } from '../../../domain/errors.js';
import { onAbort } from './abort.js';
import type { RawAnswer } from './api-connections.js';
import { type Standing, standingOf } from './call-turns.js';

/** What is known of one of the provider's limits, a token bucket. */
interface Limit {
  /** How many calls were left at `readAt`. */
  readonly remaining: number;
  readonly readAt: number;
  /** Of the call whose answer told it. */
  readonly sentAt: number;
  /** How long it takes until one more is. */
  readonly refillMs: number;
}

/** An operation, which may take several calls. */
interface Operation {
  /** Grows with each that comes; before all others where it is urgent. */
  readonly place: number;
  readonly since: number;
  hasBegun: boolean;
  readonly standing: Standing | undefined;
}

interface Waiter {
  readonly operation: Operation;
  readonly go: () => void;
}

/** How long a new operation waits for its first call: no longer, so that its others find time before the caller leaves. */
const FIRST_CALL_WITHIN_MS = 6_000;
/** How long after its beginning an operation waits for a further call: a caller waits for ten seconds. */
const LAST_CALL_WITHIN_MS = 9_000;
/**
 * How long a turn of what was begun before, such as a list, waits behind operations that came before it. Longer, and it might
 * wait in vain: behind operations of many calls, or because a full bucket has let many lists begin, which then have to get a
 * turn each.
 */
const BEGUN_GOES_FIRST_AFTER_MS = 4_000;
/** Calls at once while nothing is known: what the smallest plan of Auth0's allows. */
const AT_FIRST = 2;
const SHORTEST_REFILL_MS = 10;
const REFILL_AFTER_REFUSAL_MS = 250;
const MOST_CAUTION = 16;
/** Between two calls when a limit is reached, also when other processes were quicker again and again: with longer ones they would have all. */
const LONGEST_PAUSE_MS = 750;
const JITTER = 0.2;
/** Whatever the provider says: then it is asked again. */
const LONGEST_ABSENCE_MS = 60_000;
/** A limit that no answer has named for so long may be one of another plan. If it isn't, it is full again. */
const FORGOTTEN_AFTER_MS = 60_000;
/** `Date` has whole seconds: this is off the least. */
const HALF_A_SECOND_MS = 500;

/**
 * Keeps a provider's calls within its limits (`x-ratelimit-*`, 429), with one knowledge for all calls of the process: who
 * finds a limit reached waits in a line. The operation that waits longest goes first, so that what was begun comes to an
 * end. A new one gives up sooner than one that has begun, which so gets to the head of the line however many come. A list's
 * next turn goes before all but what is urgent once it has waited for four seconds. A call that is answered with 429 wasn't
 * done, and is made again.
 *
 * An operation is known by its signal: all calls with the same one are one operation. It is new unless the signal says
 * otherwise (`call-turns.ts`).
 */
export class CallPace {
  /** By their size, which is all that tells one from another. */
  private readonly limits = new Map<number, Limit>();
  private readonly operations = new WeakMap<AbortSignal, Operation>();
  private readonly line: Waiter[] = [];
  private count = 0;
  private underWay = 0;
  private isKnown = false;
  /** Grows with each 429 that comes although we waited: what is taken for a refill's time is multiplied by it. */
  private caution = 1;
  private refusedAt = -Infinity;
  private closedUntil = -Infinity;
  private resetAt = -Infinity;
  private timer: NodeJS.Timeout | undefined;

  /**
   * Makes the call when it is its turn, again after a 429.
   *
   * @param shared an answer that makes the call needless by then, if there is one. It costs a turn, and no call.
   * @throws ProviderUnavailable when that would be too late, with the seconds after which the provider says it takes calls
   * again, a minute at most; the call wasn't made, or was refused with 429. What `send` throws.
   */
  async run(signal: AbortSignal, send: () => Promise<RawAnswer>, shared?: () => Promise<RawAnswer | undefined> | undefined): Promise<RawAnswer> {
    const operation = this.operations.get(signal) ?? this.toOperation(signal);
    this.operations.set(signal, operation);
    for (;;) {
      await this.turn(operation, signal);
      try {
        // Without a pause when there is none: of those let go together the first calls, and the others share.
        const pending = shared?.();
        const sharedAnswer = pending && (await pending);
        if (sharedAnswer) return sharedAnswer;
        const sentAt = performance.now();
        const answer = await send();
        this.learn(answer, sentAt);
        if (answer.status !== 429) {
          operation.hasBegun = true;
          return answer;
        }
      } finally {
        this.underWay--;
        this.moveOn();
      }
    }
  }

  private toOperation(signal: AbortSignal): Operation {
    const standing = standingOf(signal);
    return {
      place: standing === 'urgent' ? -Infinity : this.count++,
      since: performance.now(),
      hasBegun: standing !== undefined,
      standing,
    };
  }

  private async turn(operation: Operation, signal: AbortSignal): Promise<void> {
    const end = operation.since + (operation.hasBegun ? LAST_CALL_WITHIN_MS : FIRST_CALL_WITHIN_MS);
    assertAwaited(signal);
    if (Math.max(this.closedUntil, performance.now()) > end) throw this.refusal();
    let timer: NodeJS.Timeout | undefined;
    let stopListening: (() => void) | undefined;
    await new Promise<void>((resolve, reject) => {
      const waiter = { operation, go: resolve };
      const leave = (reason: () => Error) => () => {
        this.line.splice(this.line.indexOf(waiter), 1);
        reject(reason());
      };
      timer = setTimeout(leave(() => this.refusal()), end - performance.now());
      stopListening = onAbort(signal, leave(() => noLongerAwaited(signal)));
      const behind = this.line.findIndex((other) => other.operation.place > operation.place);
      this.line.splice(behind < 0 ? this.line.length : behind, 0, waiter);
      this.moveOn();
    }).finally(() => {
      clearTimeout(timer);
      stopListening?.();
    });
  }

  /** Lets go all whose turn it is; sets the time for the next one. */
  private moveOn(): void {
    clearTimeout(this.timer);
    while (this.line.length > 0) {
      const wait = this.waitMs();
      if (wait > 0) {
        // Without an end where an answer is awaited first: it moves the line on.
        if (wait < Infinity) this.timer = setTimeout(() => { this.moveOn(); }, wait);
        return;
      }
      this.underWay++;
      this.line.splice(this.nextPlace(), 1)[0]?.go();
    }
  }

  /** Where in the line stands who goes next: what is urgent is at its head. */
  private nextPlace(): number {
    const longAgo = performance.now() - BEGUN_GOES_FIRST_AFTER_MS;
    const isFirst = ({ standing, since }: Operation): boolean => standing === 'urgent' || (standing === 'begun' && since < longAgo);
    return Math.max(0, this.line.findIndex(({ operation }) => isFirst(operation)));
  }

  /** How long until one more call may be made, as far as is known. */
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
      // By Auth0's pages the moment of the next refill, by its own client's makers that of the last one: the 429s will tell.
      const resetMs = Math.max(0, reset * 1000 - timeOf(headers));
      const refillMs = Math.max(SHORTEST_REFILL_MS, resetMs / Math.max(1, size - remaining));
      // Answers overtake each other: what an earlier call was told isn't news.
      if (sentAt >= (this.limits.get(size)?.sentAt ?? -Infinity)) {
        this.limits.set(size, { remaining: status === 429 ? 0 : remaining, readAt: now, sentAt, refillMs });
      }
      this.resetAt = now + resetMs;
    }
    if (status !== 429) {
      this.caution = Math.max(1, this.caution * 0.9);
      return;
    }
    // Those that were under way together are one refusal.
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

/** When it was answered, in milliseconds since 1970: by the provider's clock, which `x-ratelimit-reset` goes by, where that is told. */
function timeOf({ date }: RawAnswer['headers']): number {
  const second = Date.parse(date ?? '');
  return Number.isNaN(second) ? Date.now() : second + HALF_A_SECOND_MS;
}
