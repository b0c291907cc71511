import { inspect } from 'node:util';

/**
 * A line of the log with members, for Nest's logger. Loggers that write JSON get the members. Nest's own logger would
 * print a plain object over many lines, but prints this one as one line: the message, and the members that aren't
 * undefined.
 */
export class LogEntry {
  declare readonly msg: string;

  constructor(members: { readonly msg: string; readonly [member: string]: unknown }) {
    Object.assign(this, members);
  }

  [inspect.custom](): string {
    const { msg, ...members } = this;
    const shown = Object.entries(members).filter(([, value]) => value !== undefined);
    return [msg, ...shown.map(([name, value]) => `${name}=${String(value)}`)].join(' ');
  }
}
