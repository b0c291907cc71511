import { setTimeout } from 'node:timers/promises';
import { Logger } from '@nestjs/common';
import { z } from 'zod';
import { type KeycloakClient, unexpected } from './keycloak-client.js';

/** A user that must not stay. */
export interface LeftUser {
  readonly email: string;
  /** The time of creation that was sent with it, in milliseconds: no other user of this e-mail has it. */
  readonly createdTimestamp: number;
  /** Undefined when the answer was lost, so that nobody knows whether there is one, or will be. */
  readonly id: string | undefined;
}

/** Between two looks; the last one again and again. */
const PAUSES_MS = [500, 1_000, 2_000, 5_000];
/** How often a user whose creation got no answer is looked for in vain: Keycloak may still have the request before it. */
const LOOKS = 4;
const GIVE_UP_AFTER_MS = 600_000;
const REMOVAL_TIMEOUT_MS = 5_000;

const FOUND = z.array(z.object({ id: z.string(), createdTimestamp: z.number().nullish() }));

/** Removes users whose creation failed, for ten minutes if need be; what is left then, or when the process ends, is logged. */
export class LeftUsers {
  private readonly logger = new Logger(LeftUsers.name);
  private readonly closing = new AbortController();

  constructor(private readonly client: KeycloakClient) {}

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
      const outcome = await this.attempt(user);
      if (outcome || (outcome === false && user.id === undefined && ++looks >= LOOKS)) return;
    }
    this.logger.error({ msg: 'A user whose creation failed may be left', createdTimestamp: user.createdTimestamp });
  }

  /** True when it is gone, false when it isn't there (yet), undefined when that can't be told. */
  private async attempt({ email, createdTimestamp, id }: LeftUser): Promise<boolean | undefined> {
    const signal = AbortSignal.timeout(REMOVAL_TIMEOUT_MS);
    try {
      if (id !== undefined) return await this.delete(id, signal);
      const found = await this.client.get(`/users?exact=true&email=${encodeURIComponent(email)}`, FOUND, signal);
      const ours = found.find((user) => user.createdTimestamp === createdTimestamp);
      return ours !== undefined && (await this.delete(ours.id, signal));
    } catch (error) {
      this.logger.warn({ msg: 'A user whose creation failed is not removed yet', err: error });
      return undefined;
    }
  }

  private async delete(id: string, signal: AbortSignal): Promise<true> {
    const answer = await this.client.call({ method: 'DELETE', path: `/users/${id}`, repeatable: true, signal });
    if (answer.status !== 204 && answer.status !== 404) throw unexpected(answer);
    return true;
  }
}
