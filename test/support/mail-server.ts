import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { SMTPServer } from 'smtp-server';

export interface Mail {
  readonly to: string;
  readonly source: string;
}

/** An SMTP server on the loopback interface that keeps the mails it receives in `mails`. */
export class MailServer {
  readonly mails: Mail[] = [];
  /** Called for each mail before the server accepts it. May delay the mail, or refuse it by rejecting. */
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
