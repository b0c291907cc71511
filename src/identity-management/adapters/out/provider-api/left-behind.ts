import { Logger } from '@nestjs/common';
import { BackgroundRetries } from '../../../../common/background-retries.js';
import { OneAtATime } from '../../../../common/one-at-a-time.js';
import { noLongerAwaited } from '../../../application/ports/awaited.js';
import { mayBeDone } from './api-failure.js';
import { Operation, type Standing } from './operation.js';
import { REMOVAL_TIMEOUT_MS } from './time-budget.js';

/** The creation of a user or role in two steps, `create` and `complete`, which `undo` can undo. */
export interface Creation<Created, Result> extends Pick<Remnant, 'what' | 'name'> {
  readonly operation: Operation;
  /** Creates the user or role. */
  readonly create: () => Promise<Created>;
  /** Completes the created user or role, for example by assigning the user's roles. */
  readonly complete: (created: Created) => Promise<Result>;
  /**
   * Returns how to remove what the failed creation may have left. `created` is undefined if it is unknown whether
   * `create` has created anything, for example because its answer was lost.
   */
  readonly undo: (created: Created | undefined) => Pick<Remnant, 'trace' | 'remove'>;
}

/** A user or role that must be removed, because its creation failed. */
export interface Remnant {
  readonly what: 'user' | 'role';
  /**
   * The user's e-mail or the role's name. As long as the remnant exists, no new user can have this e-mail, or no new
   * role this name.
   */
  readonly name: string;
  /**
   * Whether it is unknown if the remnant exists or will appear, because the answer to the creation was lost or couldn't
   * be read.
   */
  readonly isUncertain: boolean;
  /** Details that identify the remnant in the log. */
  readonly trace: Readonly<Record<string, unknown>>;
  /** Tries to remove the remnant. Resolves to true if it was removed, and to false if it doesn't exist (yet). */
  readonly remove: (operation: Operation) => Promise<boolean>;
}

/** The pauses between failing attempts to remove a remnant, in milliseconds. The last pause repeats. */
const PAUSES_MS = [500, 1_000, 2_000, 5_000];
/** The pauses between searches for a remnant that the provider may still be creating, in milliseconds. */
const LOOK_PAUSES_MS = [500, 1_000, 2_000, 5_000, 10_000, 20_000, 30_000, 60_000];
const GIVE_UP_AFTER_MS = 600_000;

/**
 * Creates users and roles, all or nothing. Removes what a failed creation has left (the remnant). If an attempt fails,
 * retries for up to ten minutes. If it is uncertain whether there is a remnant, searches for it for about two minutes.
 * Logs remnants that may still exist after that, or at shutdown.
 *
 * The first attempt to remove a remnant is urgent: it goes before all waiting calls that aren't. There are never more
 * such attempts than creations that could make calls, so this does no harm. Further attempts may be many, and most find
 * nothing. To keep them from holding up operations, at most one search for an uncertain remnant and one other removal
 * are in progress at a time, not counting those that `free` makes. In the queue of the rate limiter, both wait like the
 * calls for later pages of a list (`begun`).
 */
export class LeftBehind {
  private readonly logger = new Logger(LeftBehind.name);
  private readonly retries = new BackgroundRetries();
  /** Remnants that may still exist. */
  private readonly remnants = new Set<Remnant>();
  /** The attempts in progress to remove a remnant, by remnant, without those that `free` makes. */
  private readonly attempts = new Map<Remnant, Promise<boolean | undefined>>();
  private readonly searches = new OneAtATime();
  private readonly removals = new OneAtATime();

  /**
   * Creates a user or role. If a step fails, or the operation's signal has aborted when the steps are done, the user or
   * role is removed again if it was or may have been created. The error is thrown after the first attempt to remove it.
   * If that attempt fails, or finds nothing although the provider may still create the user or role, more attempts
   * follow in the background.
   *
   * @throws errors of the steps; ProviderUnavailable when the signal has aborted.
   */
  async allOrNothing<Created extends object | string, Result>(creation: Creation<Created, Result>): Promise<Result> {
    const { operation, what, name, create, complete, undo } = creation;
    let created: Created | undefined;
    try {
      created = await create();
      const result = await complete(created);
      if (operation.signal.aborted) throw noLongerAwaited(operation.signal);
      return result;
    } catch (error) {
      const isUncertain = created === undefined;
      if (!isUncertain || mayBeDone(error)) await this.remove({ what, name, isUncertain, ...undo(created) });
      throw error;
    }
  }

  /**
   * Removes a remnant. Resolves after the first attempt, whether or not that attempt succeeded. Further attempts, if
   * needed, are made in the background.
   */
  async remove(remnant: Remnant): Promise<void> {
    this.remnants.add(remnant);
    const isGone = await this.attempt(remnant, 'urgent');
    void this.goOn(remnant, isGone).finally(() => this.remnants.delete(remnant));
  }

  /**
   * Removes the remnants that have the name of a user or role that is about to be created. Otherwise the provider would
   * refuse a client's repetition of a failed request, because of what the first attempt left. Makes no call if no such
   * remnant is known. Also resolves if the provider doesn't have a remnant (yet). If the remnant appears later, the
   * provider may still refuse the creation.
   *
   * @throws ProviderUnavailable, ProviderError when a remnant can't be removed now.
   */
  async free(what: Remnant['what'], name: string, operation: Operation): Promise<void> {
    for (const remnant of [...this.remnants].filter((one) => one.what === what && one.name === name)) {
      // Two attempts to remove one remnant at once would disturb each other. So an attempt in progress is awaited.
      // Another attempt is made here only if there was none or it failed, that is, if its result is undefined.
      const isRemoved = (await this.attempts.get(remnant)) !== undefined;
      if (!isRemoved && (await remnant.remove(operation))) this.remnants.delete(remnant);
    }
  }

  /**
   * From now on, makes no further attempts to remove remnants, except a first one for each creation that fails after
   * this. Logs the remnants that may be left, also those whose attempt is in progress, because the process may end
   * first.
   */
  close(): void {
    void this.retries.close();
    for (const remnant of this.remnants) this.logLeft(remnant);
    this.remnants.clear();
  }

  /**
   * Makes further attempts to remove a remnant, until the remnant is removed, or is certain not to exist. Gives up, and
   * logs that, after ten minutes, after `close`, or when an uncertain remnant wasn't found for two minutes.
   *
   * @param first the result of the first attempt: what `tryToRemove` resolved to.
   */
  private async goOn(remnant: Remnant, first: boolean | undefined): Promise<void> {
    const { what, isUncertain, trace } = remnant;
    const end = performance.now() + GIVE_UP_AFTER_MS;
    const lookPauses = isUncertain ? [...LOOK_PAUSES_MS] : [];
    let failures = 0;
    const pauseAfter = (isGone: boolean | undefined): number | undefined => {
      if (isGone) return undefined;
      const pauseMs = isGone === false ? lookPauses.shift() : PAUSES_MS[Math.min(failures++, PAUSES_MS.length - 1)];
      if (pauseMs === undefined && isUncertain) {
        this.logger.warn({ msg: `A ${what} whose creation failed was not found for two minutes. If the provider still creates it, remove it there`, ...trace });
      }
      return pauseMs;
    };
    const attempt = async (): Promise<number | undefined> => {
      if (!this.remnants.has(remnant)) return undefined;
      if (!this.retries.isClosed && performance.now() < end) return pauseAfter(await this.attemptInTurn(remnant));
      this.logLeft(remnant);
      return undefined;
    };
    await this.retries.repeat(attempt, pauseAfter(first));
  }

  private logLeft({ what, trace }: Remnant): void {
    this.logger.error({ msg: `A ${what} may be left over from a failed creation: remove it at the provider`, ...trace });
  }

  /**
   * Makes one more attempt to remove a remnant, after the attempts of the same kind for which this method was called
   * before. There are two kinds: searches for uncertain remnants, and removals of all others. Makes no attempt after
   * `close`.
   */
  private attemptInTurn(remnant: Remnant): Promise<boolean | undefined> {
    const queue = remnant.isUncertain ? this.searches : this.removals;
    return queue.run(() => (this.retries.isClosed ? undefined : this.attempt(remnant, 'begun')));
  }

  private attempt(remnant: Remnant, standing: Standing): Promise<boolean | undefined> {
    const attempt = this.tryToRemove(remnant, standing).finally(() => this.attempts.delete(remnant));
    this.attempts.set(remnant, attempt);
    return attempt;
  }

  /**
   * Makes one attempt to remove a remnant. Resolves to the result of the remnant's `remove`; to undefined on a failure.
   */
  private async tryToRemove({ what, remove }: Remnant, standing: Standing): Promise<boolean | undefined> {
    try {
      return await remove(new Operation(AbortSignal.timeout(REMOVAL_TIMEOUT_MS), standing));
    } catch (error) {
      this.logger.warn({ msg: `Removing a ${what} whose creation failed did not succeed; retrying`, err: error });
      return undefined;
    }
  }
}
