import { setTimeout } from 'node:timers/promises';
import { Logger } from '@nestjs/common';

/** A user that must not stay. */
export interface LeftUser {
  /** Whether creation's answer was lost, so that nobody knows whether there is one, or will be. */
  readonly isUncertain: boolean;
  /** What the log may say of it. */
  readonly trace: Readonly<Record<string, unknown>>;
  /** Resolves to true when it is gone, false when it wasn't there (yet). */
  readonly remove: (signal: AbortSignal) => Promise<boolean>;
}

/** Between two looks; the last one again and again. */
const PAUSES_MS = [500, 1_000, 2_000, 5_000];
/** How often a user whose creation got no answer is looked for in vain: the provider may still have the request before it. */
const LOOKS = 4;
const GIVE_UP_AFTER_MS = 600_000;
const REMOVAL_TIMEOUT_MS = 5_000;

/** Removes users whose creation failed, for ten minutes if need be; what is left then, or when the process ends, is logged. */
export class LeftUsers {
  private readonly logger = new Logger(LeftUsers.name);
  private readonly closing = new AbortController();

  /** Resolves after the first attempt, however it went; further ones go on by themselves. */
  async remove(user: LeftUser): Promise<void> {
    if (!(await this.attempt(user))) void this.goOn(user);
  }

  /** Begins no further attempts. */
  close(): void {
    this.closing.abort();
  }

  private async goOn(user: LeftUser): Promise<void> {
    const end = performance.now() + GIVE_UP_AFTER_MS;
    let looks = 1;
    for (let turn = 0; performance.now() < end; turn++) {
      const pause = PAUSES_MS[Math.min(turn, PAUSES_MS.length - 1)];
      const isClosing = await setTimeout(pause, false, { signal: this.closing.signal, ref: false }).catch(() => true);
      if (isClosing) break;
      const isGone = await this.attempt(user);
      if (isGone || (isGone === false && (!user.isUncertain || ++looks >= LOOKS))) return;
    }
    this.logger.error({ msg: 'A user whose creation failed may be left', ...user.trace });
  }

  /** Undefined when it can't be told. */
  private async attempt({ remove }: LeftUser): Promise<boolean | undefined> {
    try {
      return await remove(AbortSignal.timeout(REMOVAL_TIMEOUT_MS));
    } catch (error) {
      this.logger.warn({ msg: 'A user whose creation failed is not removed yet', err: error });
      return undefined;
    }
  }
}
