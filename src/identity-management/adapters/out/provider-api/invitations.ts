import { Logger } from '@nestjs/common';
import { OneAtATime } from '../../../../common/one-at-a-time.js';

/**
 * Sends invitation mails through the identity provider, one at a time in the background, so that no client waits for a
 * mail server. A failure is logged, and the mail isn't sent again.
 */
export abstract class Invitations {
  private readonly log = new Logger('Invitations');
  private readonly mails = new OneAtATime();

  send(userId: string, email: string): void {
    void this.mails.run(async () => {
      try {
        if (await this.mail(userId, email)) this.log.log({ msg: 'The identity provider accepted the invitation of a new user', userId });
      } catch (error) {
        this.log.warn({ msg: 'Inviting a new user failed; the user may have got no mail', userId, err: error });
      }
    });
  }

  /** Resolves when no mail is waiting or being sent. Without connections to the provider, all of them fail at once. */
  async close(): Promise<void> {
    await this.mails.run(() => undefined);
  }

  /** Requests one mail. Returns false if mails can't be sent, and the reason has been logged. */
  protected abstract mail(userId: string, email: string): Promise<boolean>;
}
