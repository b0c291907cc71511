import { Logger } from '@nestjs/common';
import { OneAtATime } from '../../../../common/one-at-a-time.js';

/**
 * Sends invitation mails to new users through the identity provider. The mails are sent one at a time in the
 * background, so that no client waits for a mail server. Logs each mail that the provider accepted and each failure,
 * with the user's id. A failed mail isn't sent again.
 */
export abstract class Invitations {
  private readonly log = new Logger('Invitations');
  private readonly mails = new OneAtATime();

  /** Queues a mail to a new user with a link to set the password. */
  send(userId: string, email: string): void {
    void this.mails.run(async () => {
      try {
        if (await this.mail(userId, email)) this.log.log({ msg: 'The identity provider accepted the invitation of a new user', userId });
      } catch (error) {
        this.log.warn({ msg: 'Inviting a new user failed; the user may have got no mail', userId, err: error });
      }
    });
  }

  /**
   * Resolves when no mail is waiting or being sent. Once the connections to the provider are closed, all these mails
   * fail at once.
   */
  async close(): Promise<void> {
    await this.mails.run(() => undefined);
  }

  /**
   * Requests one mail from the provider.
   *
   * @returns whether the provider has accepted the mail. False: mails can't be sent, and the reason has been logged.
   */
  protected abstract mail(userId: string, email: string): Promise<boolean>;
}
