import { Logger } from '@nestjs/common';

/**
 * Sends invitation mails to new users through the provider. Mails are sent one at a time in the background, so that no
 * answer waits for a mail server. The log shows the user's id for each accepted mail and each failure. A failed mail
 * isn't retried.
 */
export class Invitations {
  private readonly logger = new Logger(Invitations.name);
  private latest: Promise<void> = Promise.resolve();

  /**
   * Queues a mail.
   *
   * @param mail resolves to whether the provider has accepted the mail. False means that none can be sent, which is
   * logged elsewhere.
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

  /** Resolves when no mail is left to send. This is immediate if the connection for mails is closed. */
  async close(): Promise<void> {
    await this.latest;
  }
}
