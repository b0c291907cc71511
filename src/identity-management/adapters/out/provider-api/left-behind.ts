import { setMaxListeners } from 'node:events';
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

/** Between two attempts at a provider that fails; the last one again and again. */
const PAUSES_MS = [500, 1_000, 2_000, 5_000];
/** Between two looks for what isn't there, but may be yet: the provider may still have the request before it. */
const LOOK_PAUSES_MS = [500, 1_000, 2_000, 5_000, 10_000, 20_000, 30_000, 60_000];
const GIVE_UP_AFTER_MS = 600_000;
const REMOVAL_TIMEOUT_MS = 5_000;

/** Removes users and roles whose creation failed, for ten minutes if need be; what is left then, or when the process ends, is logged. */
export class LeftBehind {
  private readonly logger = new Logger(LeftBehind.name);
  private readonly closing = new AbortController();

  constructor() {
    // As many pauses as there are remnants listen to it.
    setMaxListeners(0, this.closing.signal);
  }

  /** Resolves after the first attempt, however it went; further ones go on by themselves. */
  async remove(remnant: Remnant): Promise<void> {
    const isGone = await this.attempt(remnant);
    if (!isGone) void this.goOn(remnant, isGone === false);
  }

  /** Begins no further attempts. */
  close(): void {
    this.closing.abort();
  }

  private async goOn(remnant: Remnant, wasAbsent: boolean): Promise<void> {
    const end = performance.now() + GIVE_UP_AFTER_MS;
    let isAbsent: boolean | undefined = wasAbsent;
    for (let failures = 0, looks = 0; performance.now() < end; ) {
      if (isAbsent && (!remnant.isUncertain || looks === LOOK_PAUSES_MS.length)) break;
      const pause: number | undefined = isAbsent ? LOOK_PAUSES_MS[looks++] : PAUSES_MS[Math.min(failures++, PAUSES_MS.length - 1)];
      const isClosing = await setTimeout(pause, false, { signal: this.closing.signal, ref: false }).catch(() => true);
      if (isClosing) {
        isAbsent = false;
        break;
      }
      const isGone = await this.attempt(remnant);
      if (isGone) return;
      isAbsent = isGone === false;
    }
    if (isAbsent && !remnant.isUncertain) return;
    const msg = isAbsent ? 'was not found for two minutes, and is left if the provider creates it yet' : 'may be left';
    this.logger[isAbsent ? 'warn' : 'error']({ msg: `A ${remnant.what} whose creation failed ${msg}`, ...remnant.trace });
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
