import { Logger } from '@nestjs/common';
import { BackgroundRetries } from '../../../../common/background-retries.js';
import { OneAtATime } from '../../../../common/one-at-a-time.js';
import { noLongerAwaited } from '../../../application/ports/awaited.js';
import { mayBeDone } from './api-failure.js';
import { Operation, type Standing } from './operation.js';
import { REMOVAL_TIMEOUT_MS } from './time-budget.js';

export interface Creation<Created, Result> extends Pick<Remnant, 'what' | 'name'> {
  readonly operation: Operation;
  readonly create: () => Promise<Created>;
  readonly complete: (created: Created) => Promise<Result>;
  /** How to remove what the creation left. `created` is undefined if it is unknown whether anything was created. */
  readonly undo: (created: Created | undefined) => Pick<Remnant, 'trace' | 'remove'>;
}

/** Identifies a remnant in the log. docs/log.md explains the members. */
export interface Trace {
  readonly userId?: string;
  readonly createdTimestamp?: number;
  readonly description?: string;
}

/** A user or role that must be removed, because its creation failed. */
export interface Remnant {
  readonly what: 'user' | 'role';
  /** The user's e-mail or the role's name, which is in use as long as the remnant exists. */
  readonly name: string;
  /** Whether the remnant may not exist (yet), because the answer to the creation was lost or couldn't be read. */
  readonly isUncertain: boolean;
  readonly trace: Trace;
  /** Resolves to true if the remnant was removed, and to false if it doesn't exist (yet). */
  readonly remove: (operation: Operation) => Promise<boolean>;
}

const PAUSES_MS = [500, 1_000, 2_000, 5_000];
const LOOK_PAUSES_MS = [500, 1_000, 2_000, 5_000, 10_000, 20_000, 30_000, 60_000];
const GIVE_UP_AFTER_MS = 600_000;

/**
 * Creates users and roles, all or nothing. Removes what a failed creation has left (the remnant): retries for up to ten
 * minutes, or searches for an uncertain one for about two minutes. Logs remnants that may still exist after that.
 *
 * The first attempt is urgent: there are never more of these than creations that could make calls. Further attempts may
 * be many, and most find nothing. So they wait as `begun`, and at most one search for an uncertain remnant and one
 * other removal are in progress at a time, not counting those that `free` makes.
 */
export class LeftBehind {
  private readonly logger = new Logger(LeftBehind.name);
  private readonly retries = new BackgroundRetries();
  private readonly remnants = new Set<Remnant>();
  /** The attempts in progress, without those that `free` makes. */
  private readonly attempts = new Map<Remnant, Promise<boolean | undefined>>();
  private readonly searches = new OneAtATime();
  private readonly removals = new OneAtATime();

  /**
   * Creates a user or role. If a step fails, or the signal has aborted when the steps are done, removes it again.
   * Throws after the first attempt; more may follow in the background.
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

  /** Removes a remnant. Resolves after the first attempt; more may follow in the background. */
  async remove(remnant: Remnant): Promise<void> {
    this.remnants.add(remnant);
    const isGone = await this.attempt(remnant, 'urgent');
    void this.goOn(remnant, isGone).finally(() => this.remnants.delete(remnant));
  }

  /**
   * Removes known remnants with the name of a user or role that is about to be created. Otherwise the provider would
   * refuse a client's repetition of a failed request. Resolves even if the provider doesn't have a remnant (yet).
   *
   * @throws ProviderUnavailable, ProviderError when a remnant can't be removed now.
   */
  async free(what: Remnant['what'], name: string, operation: Operation): Promise<void> {
    for (const remnant of [...this.remnants].filter((one) => one.what === what && one.name === name)) {
      // Two attempts to remove one remnant at once would disturb each other, so one in progress is awaited. Its result
      // is undefined if it failed.
      const isRemoved = (await this.attempts.get(remnant)) !== undefined;
      if (!isRemoved && (await remnant.remove(operation))) this.remnants.delete(remnant);
    }
  }

  /**
   * Makes no further attempts, except the first one for each creation that fails after this. Also logs remnants whose
   * attempt is in progress, because the process may end first.
   */
  close(): void {
    void this.retries.close();
    for (const remnant of this.remnants) this.logLeft(remnant);
    this.remnants.clear();
  }

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

  private attemptInTurn(remnant: Remnant): Promise<boolean | undefined> {
    const queue = remnant.isUncertain ? this.searches : this.removals;
    return queue.run(() => (this.retries.isClosed ? undefined : this.attempt(remnant, 'begun')));
  }

  private attempt(remnant: Remnant, standing: Standing): Promise<boolean | undefined> {
    const attempt = this.tryToRemove(remnant, standing).finally(() => this.attempts.delete(remnant));
    this.attempts.set(remnant, attempt);
    return attempt;
  }

  private async tryToRemove({ what, remove }: Remnant, standing: Standing): Promise<boolean | undefined> {
    try {
      return await remove(new Operation(AbortSignal.timeout(REMOVAL_TIMEOUT_MS), standing));
    } catch (error) {
      this.logger.warn({ msg: `Removing a ${what} whose creation failed did not succeed; retrying`, err: error });
      return undefined;
    }
  }
}
