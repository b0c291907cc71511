/**
 * The public address of the service. Known once the service listens, because with `PORT=0` the system picks the port.
 */
export class ServiceAddress {
  private url: string | undefined;
  private readonly listeners: (() => void | Promise<void>)[] = [];

  /**
   * The service's `{base_url}`, without a trailing slash.
   *
   * @throws Error before `announce` is called.
   */
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
