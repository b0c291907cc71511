import { setTimeout } from 'node:timers/promises';
import { Logger } from '@nestjs/common';

/** A user or a role that must not stay. */
export interface Remnant {
  readonly what: 'user' | 'role';
  /** Whether creation's answer was lost, so that nobody knows whether there is one, or will be. */
  readonly isUncertain: boolean;
  /** What the log may say of it. */
  readonly trace: Readonly<Record<string, unknown>>;
  /** Resolves to true when it is gone, false when it wasn't there (yet). */
  readonly remove: (signal: AbortSignal) => Promise<boolean>;
}

/** Between two looks; the last one again and again. */
const PAUSES_MS = [500, 1_000, 2_000, 5_000];
/** How often what got no answer to its creation is looked for in vain: the provider may still have the request before it. */
const LOOKS = 4;
const GIVE_UP_AFTER_MS = 600_000;
const REMOVAL_TIMEOUT_MS = 5_000;

/** Removes users and roles whose creation failed, for ten minutes if need be; what is left then, or when the process ends, is logged. */
export class LeftBehind {
  private readonly logger = new Logger(LeftBehind.name);
  private readonly closing = new AbortController();

  /** Resolves after the first attempt, however it went; further ones go on by themselves. */
  async remove(remnant: Remnant): Promise<void> {
    if (!(await this.attempt(remnant))) void this.goOn(remnant);
  }

  /** Begins no further attempts. */
  close(): void {
    this.closing.abort();
  }

  private async goOn(remnant: Remnant): Promise<void> {
    const end = performance.now() + GIVE_UP_AFTER_MS;
    let looks = 1;
    for (let turn = 0; performance.now() < end; turn++) {
      const pause = PAUSES_MS[Math.min(turn, PAUSES_MS.length - 1)];
      const isClosing = await setTimeout(pause, false, { signal: this.closing.signal, ref: false }).catch(() => true);
      if (isClosing) break;
      const isGone = await this.attempt(remnant);
      if (isGone || (isGone === false && (!remnant.isUncertain || ++looks >= LOOKS))) return;
    }
    this.logger.error({ msg: `A ${remnant.what} whose creation failed may be left`, ...remnant.trace });
  }

  /** Undefined when it can't be told. */
  private async attempt({ what, remove }: Remnant): Promise<boolean | undefined> {
    try {
      return await remove(AbortSignal.timeout(REMOVAL_TIMEOUT_MS));
    } catch (error) {
      this.logger.warn({ msg: `A ${what} whose creation failed is not removed yet`, err: error });
      return undefined;
    }
  }
}
