import { setMaxListeners } from 'node:events';
import { setTimeout } from 'node:timers/promises';
import { Logger } from '@nestjs/common';
import { begun, urgent } from './call-turns.js';

/** A user or a role that must not stay. */
export interface Remnant {
  readonly what: 'user' | 'role';
  /** A user's e-mail or a role's name, which nobody else can have while it stays. */
  readonly name: string;
  /** Whether creation's answer was lost, so that nobody knows whether there is one, or will be. */
  readonly isUncertain: boolean;
  /** What the log may say of it. */
  readonly trace: Readonly<Record<string, unknown>>;
  /** Resolves to true when it is gone, false when it wasn't there (yet). */
  readonly remove: (signal: AbortSignal) => Promise<boolean>;
}

/** Between two attempts at a provider that fails; the last one again and again. */
const PAUSES_MS = [500, 1_000, 2_000, 5_000];
/** Between two looks for what isn't there, but may be yet: the provider may still have the request before it. */
const LOOK_PAUSES_MS = [500, 1_000, 2_000, 5_000, 10_000, 20_000, 30_000, 60_000];
const GIVE_UP_AFTER_MS = 600_000;
const REMOVAL_TIMEOUT_MS = 10_000;

/**
 * Removes users and roles whose creation failed, for ten minutes if need be; what is left then, or when the process ends, is
 * logged.
 *
 * The first attempt goes before all calls that wait: no more of these come than creations had their turn. Further ones are
 * many for each, and mostly in vain. So that the operations don't wait for them, one removal and one look for what nobody
 * knows to be there are under way at a time, in the line with all others as a list's pages are.
 */
export class LeftBehind {
  private readonly logger = new Logger(LeftBehind.name);
  private readonly closing = new AbortController();
  /** Those that may still be there. */
  private readonly remnants = new Set<Remnant>();
  /** In progress. */
  private readonly attempts = new Map<Remnant, Promise<boolean | undefined>>();
  private latestLook: Promise<unknown> = Promise.resolve();
  private latestRemoval: Promise<unknown> = Promise.resolve();

  constructor() {
    // As many pauses as there are remnants listen to it.
    setMaxListeners(0, this.closing.signal);
  }

  /** Resolves after the first attempt, however it went; further ones go on by themselves. */
  async remove(remnant: Remnant): Promise<void> {
    this.remnants.add(remnant);
    const isGone = await this.attempt(remnant, urgent);
    void this.goOn(remnant, isGone).finally(() => this.remnants.delete(remnant));
  }

  /**
   * Removes at once what was left under a name that is to be used again: otherwise the repeat of a creation that failed
   * would be refused because of its own remnant. Asks the provider for nothing where there is none.
   *
   * @throws ProviderUnavailable, ProviderError when a remnant can't be removed now.
   */
  async free(what: Remnant['what'], name: string, signal: AbortSignal): Promise<void> {
    for (const remnant of [...this.remnants].filter((one) => one.what === what && one.name === name)) {
      // Two removals at once would be in each other's way.
      const isRemoved = (await this.attempts.get(remnant)) !== undefined;
      if (!isRemoved && (await remnant.remove(signal))) this.remnants.delete(remnant);
    }
  }

  /** Begins no further attempts. */
  close(): void {
    this.closing.abort();
  }

  /** @param first how the first attempt went. */
  private async goOn(remnant: Remnant, first: boolean | undefined): Promise<void> {
    const { what, isUncertain, trace } = remnant;
    const end = performance.now() + GIVE_UP_AFTER_MS;
    const lookPauses = isUncertain ? [...LOOK_PAUSES_MS] : [];
    let failures = 0;
    for (let isGone = first; !isGone; isGone = await this.attemptInTurn(remnant)) {
      const wasAbsent = isGone === false;
      const pause = wasAbsent ? lookPauses.shift() : PAUSES_MS[Math.min(failures++, PAUSES_MS.length - 1)];
      if (pause === undefined) {
        if (isUncertain) this.logger.warn({ msg: `A ${what} whose creation failed was not found for two minutes, and is left if the provider creates it yet`, ...trace });
        return;
      }
      const isClosing = await setTimeout(pause, false, { signal: this.closing.signal, ref: false }).catch(() => true);
      if (!this.remnants.has(remnant)) return;
      if (isClosing || performance.now() >= end) {
        this.logger.error({ msg: `A ${what} whose creation failed may be left`, ...trace });
        return;
      }
    }
  }

  /** A further attempt, once those that were asked for before it are over: of looks, or of removals. */
  private attemptInTurn(remnant: Remnant): Promise<boolean | undefined> {
    const line = remnant.isUncertain ? 'latestLook' : 'latestRemoval';
    const attempt = this[line].then(() => (this.closing.signal.aborted ? undefined : this.attempt(remnant, begun)));
    this[line] = attempt;
    return attempt;
  }

  private attempt(remnant: Remnant, standing: (signal: AbortSignal) => AbortSignal): Promise<boolean | undefined> {
    const attempt = this.tryToRemove(remnant, standing).finally(() => this.attempts.delete(remnant));
    this.attempts.set(remnant, attempt);
    return attempt;
  }

  /** Undefined when it can't be told. */
  private async tryToRemove({ what, remove }: Remnant, standing: (signal: AbortSignal) => AbortSignal): Promise<boolean | undefined> {
    try {
      return await remove(standing(AbortSignal.timeout(REMOVAL_TIMEOUT_MS)));
    } catch (error) {
      this.logger.warn({ msg: `A ${what} whose creation failed is not removed yet`, err: error });
      return undefined;
    }
  }
}
