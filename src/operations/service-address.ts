/** Where clients find the service. Known once it listens, because `PORT=0` leaves the port to the system. */
export class ServiceAddress {
  private url: string | undefined;
  private readonly listeners: (() => void | Promise<void>)[] = [];

  /** `{base_url}`, without a trailing slash. */
  get baseUrl(): string {
    if (this.url === undefined) throw new Error('The service does not listen yet.');
    return this.url;
  }

  async announce(baseUrl: string): Promise<void> {
    this.url = baseUrl;
    for (const listener of this.listeners) await listener();
  }

  onAnnounced(listener: () => void | Promise<void>): void {
    this.listeners.push(listener);
  }
}
