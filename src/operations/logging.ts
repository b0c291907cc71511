import type { LoggerService } from '@nestjs/common';
import { type Logger, pino } from 'pino';
import pretty from 'pino-pretty';

/** One JSON object a line on standard output; for people where that is a terminal. */
export function createLogger(level: string): Logger {
  const options = { level, base: null, serializers: LOG_SERIALIZERS };
  return process.stdout.isTTY ? pino(options, pretty({ sync: true, colorize: true })) : pino(options);
}

/** Removes the customer from the paths of files, which errors of file systems and stores quote. */
const withoutCustomers = (text: string): string => text.replace(/customer_id(?:=|%3D)[^/\s'"`]*/gi, 'customer_id=***');

/** The message of an error as far as a log may show it: JSON.parse quotes what it was given. */
const messageOf = (error: Error): string => (error instanceof SyntaxError ? 'Malformed text.' : withoutCustomers(error.message));

/** What a log may tell of an error: its members may hold what a client or a provider sent. */
function describeError(error: unknown): unknown {
  if (!(error instanceof Error)) return { type: typeof error };
  const { name, cause } = error;
  const code = 'code' in error ? error.code : undefined;
  const message = messageOf(error);
  const stack = withoutCustomers(error.stack?.replace(error.message, () => message) ?? '');
  return { type: name, message, code, stack, ...(cause === undefined ? {} : { cause: describeError(cause) }) };
}

/** Where Nest tells each module and route that it found. */
const BOOT_DETAILS = new Set(['InstanceLoader', 'RoutesResolver', 'RouterExplorer', 'NestFactory', 'NestApplication']);

/** Where Nest tells what stops the boot, which main.ts explains, once. */
const BOOT_FAILURES = new Set(['ExceptionHandler', 'NestApplication']);

/** How members of a log line are written. */
export const LOG_SERIALIZERS = { err: describeError };

/** Nest's logger, on pino: `Logger.log({ msg, ... })` makes a line with those members. */
export class PinoLoggerService implements LoggerService {
  constructor(private readonly logger: Logger) {}

  log(message: unknown, ...rest: unknown[]): void {
    this.write(BOOT_DETAILS.has(String(rest.at(-1))) ? 'debug' : 'info', message, rest);
  }

  error(message: unknown, ...rest: unknown[]): void {
    if (!BOOT_FAILURES.has(String(rest.at(-1)))) this.write('error', message, rest);
  }

  warn(message: unknown, ...rest: unknown[]): void {
    this.write('warn', message, rest);
  }

  debug(message: unknown, ...rest: unknown[]): void {
    this.write('debug', message, rest);
  }

  verbose(message: unknown, ...rest: unknown[]): void {
    this.write('trace', message, rest);
  }

  fatal(message: unknown, ...rest: unknown[]): void {
    this.write('fatal', message, rest);
  }

  private write(level: 'fatal' | 'error' | 'warn' | 'info' | 'debug' | 'trace', message: unknown, rest: unknown[]): void {
    if (!this.logger.isLevelEnabled(level)) return;
    const texts = rest.filter((part) => typeof part === 'string');
    const [context, stack] = texts.reverse();
    if (typeof message === 'object' && message !== null && !(message instanceof Error)) {
      this.logger[level]({ context, ...message });
      return;
    }
    const err = [message, ...rest].find((part) => part instanceof Error);
    this.logger[level]({ context, stack, err }, message instanceof Error ? messageOf(message) : withoutCustomers(String(message)));
  }
}
