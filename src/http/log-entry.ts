import { inspect } from 'node:util';

/**
 * A line of the log with members, for Nest's logger. Loggers that write JSON get the members. Nest's own logger would
 * print a plain object over many lines, but prints this one as one line: the message, and the members that aren't
 * undefined.
 *
 * The customer of a request isn't among the members, because customers may be households, whose data is personal. A
 * logger must read `customerId` to get it. The service's logger does so only with `LOG_CUSTOMERS`.
 */
export class LogEntry {
  declare readonly msg: string;
  readonly #customerId: string | undefined;

  constructor(members: { readonly msg: string; readonly [member: string]: unknown }, customerId?: string) {
    Object.assign(this, members);
    this.#customerId = customerId;
  }

  /** The customer whose uploads the request stored, found, fetched, listed or removed; undefined if none is known. */
  get customerId(): string | undefined {
    return this.#customerId;
  }

  [inspect.custom](): string {
    const { msg, ...members } = this;
    const shown = Object.entries(members).filter(([, value]) => value !== undefined);
    return [msg, ...shown.map(([name, value]) => `${name}=${String(value)}`)].join(' ');
  }
}
