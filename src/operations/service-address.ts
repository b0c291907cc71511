import { Logger } from '@nestjs/common';

/** The service's public address. Known once the service listens, because with `PORT=0` the system picks the port. */
export class ServiceAddress {
  private readonly logger = new Logger(ServiceAddress.name);
  private url: string | undefined;
  private readonly listeners: (() => void | Promise<void>)[] = [];
  private announcement: Promise<void> = Promise.resolve();
  private makeKnown: (baseUrl: string) => void = () => undefined;
  readonly known = new Promise<string>((resolve) => (this.makeKnown = resolve));

  /**
   * The service's `{base_url}`, without a trailing slash.
   *
   * @throws Error before the service listens.
   */
  get baseUrl(): string {
    if (this.url === undefined) throw new Error('The service does not listen yet.');
    return this.url;
  }

  get announced(): Promise<void> {
    return this.announcement;
  }

  /** Makes the address known. Must be called when the service begins to listen. */
  announce(baseUrl: string): void {
    this.url = baseUrl;
    this.makeKnown(baseUrl);
    this.announcement = this.callListeners();
  }

  onAnnounced(listener: () => void | Promise<void>): void {
    this.listeners.push(listener);
  }

  private async callListeners(): Promise<void> {
    for (const listener of this.listeners) {
      try {
        await listener();
      } catch (error) {
        this.logger.error({ msg: 'The address of the service could not be recorded. Tokens of `npm run token` may have another issuer.', err: error });
      }
    }
  }
}
