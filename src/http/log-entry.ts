import { inspect } from 'node:util';

/**
 * A line of the log with members, for Nest's logger. Loggers that write JSON get the members. Nest's own logger would
 * print a plain object over many lines, but prints this one as one line: the message, and the members that aren't
 * undefined.
 *
 * The customer of a request isn't among the members, because customers may be households. Only a logger that asks for it
 * (`LOG_CUSTOMERS`) gets it.
 */
export class LogEntry {
  declare readonly msg: string;
  readonly #customerId: string | undefined;

  constructor(members: { readonly msg: string; readonly [member: string]: unknown }, customerId?: string) {
    Object.assign(this, members);
    this.#customerId = customerId;
  }

  /** The customer whose uploads the request stored, found, listed or removed; undefined if it named none. */
  get customerId(): string | undefined {
    return this.#customerId;
  }

  [inspect.custom](): string {
    const { msg, ...members } = this;
    const shown = Object.entries(members).filter(([, value]) => value !== undefined);
    return [msg, ...shown.map(([name, value]) => `${name}=${String(value)}`)].join(' ');
  }
}
