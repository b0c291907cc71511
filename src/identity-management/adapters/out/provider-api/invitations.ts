import { Logger } from '@nestjs/common';

/**
 * Mails to new users, which the provider sends. One at a time, in the background: nobody's answer waits for a mail server.
 * Each is logged with the user's id: one that the provider takes, and one that fails, which isn't tried again.
 */
export class Invitations {
  private readonly logger = new Logger(Invitations.name);
  private latest: Promise<void> = Promise.resolve();

  /**
   * Sends one behind those before it.
   *
   * @param mail resolves to whether the provider has taken it: false where none can be sent, which is logged elsewhere.
   */
  send(userId: string, mail: () => Promise<boolean>): void {
    this.latest = this.latest.then(mail).then(
      (isTaken) => {
        if (isTaken) this.logger.log({ msg: 'The identity provider sends a new user an invitation', userId });
      },
      (error: unknown) => {
        this.logger.warn({ msg: 'A new user may have got no invitation', userId, err: error });
      },
    );
  }

  /** Resolves when none is left to send; at once where what they are sent by is closed. */
  async close(): Promise<void> {
    await this.latest;
  }
}
