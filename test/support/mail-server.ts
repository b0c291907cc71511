import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { SMTPServer } from 'smtp-server';

export interface Mail {
  readonly to: string;
  readonly source: string;
}

/** An SMTP server on the loopback that keeps what it gets. */
export class MailServer {
  readonly mails: Mail[] = [];
  /** What becomes of a mail in place of that, while it is set: rejects to refuse it, and holds it as long as it takes. */
  onMail: (() => Promise<void>) | undefined;
  readonly #server = new SMTPServer({
    authOptional: true,
    disabledCommands: ['STARTTLS'],
    onData: (stream, { envelope }, callback) => {
      const to = envelope.rcptTo.map(({ address }) => address).join();
      const take = async (): Promise<void> => {
        const source = await text(stream);
        await this.onMail?.();
        this.mails.push({ to, source });
      };
      take().then(() => { callback(); }, callback);
    },
  });

  /** What a realm of Keycloak's needs to send its mails here. */
  get smtpServer(): Record<string, string> {
    const { port } = this.#server.server.address() as AddressInfo;
    return { host: '127.0.0.1', port: String(port), from: 'load-data@grid.example' };
  }

  async start(): Promise<this> {
    await once(this.#server.listen(0, '127.0.0.1'), 'listening');
    return this;
  }

  close(): Promise<void> {
    return new Promise((closed) => {
      this.#server.close(closed);
    });
  }
}
