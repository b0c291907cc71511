import { Logger } from '@nestjs/common';

/**
 * Mails to new users, which the provider sends. One at a time, in the background: nobody's answer waits for a mail server.
 * One that fails is logged with the user's id, and not tried again.
 */
export class Invitations {
  private readonly logger = new Logger(Invitations.name);
  private latest: Promise<void> = Promise.resolve();

  /** Sends one behind those before it. */
  send(userId: string, mail: () => Promise<void>): void {
    this.latest = this.latest.then(mail).catch((error: unknown) => {
      this.logger.warn({ msg: 'A new user may have got no invitation', userId, err: error });
    });
  }

  /** Resolves when none is left to send; at once where what they are sent by is closed. */
  async close(): Promise<void> {
    await this.latest;
  }
}
