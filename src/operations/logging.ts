import type { LoggerService } from '@nestjs/common';
import { type Logger, pino } from 'pino';
import type { PrettyOptions } from 'pino-pretty';
import { CUSTOMER_ID, LogEntry } from '../http/exchange.js';
import { LogOutput } from './log-output.js';

/** The only LogOutput of the process. All loggers share it, because each LogOutput adds a listener to `process`. */
let standardOutput: LogOutput | undefined;

/**
 * Creates a logger that writes JSON lines to standard output, or readable text if standard output is a terminal.
 *
 * @param members is called for each line, and returns further members for that line.
 */
export async function createLogger(level: string, members?: () => object): Promise<Logger> {
  const options = { level, base: null, serializers: LOG_SERIALIZERS, ...(members && { mixin: members }) };
  if (!process.stdout.isTTY) return pino(options, (standardOutput ??= new LogOutput(1)));
  const { default: pretty } = await import('pino-pretty');
  return pino(options, pretty({ ...PRETTY, sync: true, colorize: true }));
}

const text = (value: unknown): string => (typeof value === 'string' || typeof value === 'number' ? String(value) : '');

/**
 * The form of the log on a terminal. A request is one line: method, path, status, duration, reason of a refusal and
 * request id, in the order in which people look for them.
 */
export const PRETTY = {
  singleLine: true,
  ignore: 'context,requestId,trace_id,method,path,status,ms,uploadId,customerId,kind,reason,aborted',
  messageFormat: ({ msg, requestId, method, path, status, ms, kind, reason, aborted }) => {
    const outcome = aborted ? 'aborted' : text(status);
    const request = [text(method), text(path), outcome, ms === undefined ? '' : `${text(ms)} ms`];
    const why = kind === undefined || kind === reason ? text(kind) : [text(kind), text(reason)].filter(Boolean).join(': ');
    return [...(msg === 'request' ? request : [text(msg)]), why, text(requestId)].filter(Boolean).join(' ');
  },
} as const satisfies PrettyOptions;

/**
 * Replaces the customer ids in the paths that a text quotes, because errors of file systems and stores quote paths of
 * uploaded files.
 */
const withoutCustomers = (text: string): string => text.replace(/customer_id(?:=|%3D)[^/\s'"`]*/gi, 'customer_id=***');

/**
 * The message of an error as it may be logged. The message of a SyntaxError is replaced, because JSON.parse quotes its
 * input.
 */
const loggableMessage = (error: Error): string => (error instanceof SyntaxError ? 'Malformed text.' : withoutCustomers(error.message));

/** The parts of an error that may be logged. Its other members may contain data from a client or a provider. */
function describeError(error: unknown): unknown {
  if (!(error instanceof Error)) return { type: typeof error };
  const { name, cause } = error;
  const code = 'code' in error ? error.code : undefined;
  const message = loggableMessage(error);
  const stack = withoutCustomers(error.stack?.replace(error.message, () => message) ?? '');
  return { type: name, message, code, stack, ...(cause === undefined ? {} : { cause: describeError(cause) }) };
}

/**
 * The log contexts in which Nest reports each module and route that it finds. These messages are logged as `debug`
 * instead of `info`.
 */
const BOOT_DETAILS = new Set(['InstanceLoader', 'RoutesResolver', 'RouterExplorer', 'NestFactory', 'NestApplication']);

/**
 * The log contexts in which Nest reports a failed boot. These errors aren't logged, because the command `serve`
 * explains such a failure.
 */
const BOOT_FAILURES = new Set(['ExceptionHandler', 'NestApplication']);

/** The serializers of the members of a log line, by the member's name. */
export const LOG_SERIALIZERS = { err: describeError };

export interface LogOptions {
  /** One in this many lines of successful requests is written. Default: 1. */
  readonly every?: number;
  /** Whether the lines of requests have `customerId`. Default: false. */
  readonly customers?: boolean;
}

/** Nest's logger on top of pino. `Logger.log({ msg, ... })` writes a line with the members of that object. */
export class PinoLoggerService implements LoggerService {
  private readonly every: number;
  private readonly customers: boolean;
  private successes = 0;

  constructor(
    private readonly logger: Logger,
    { every = 1, customers = false }: LogOptions = {},
  ) {
    this.every = every;
    this.customers = customers;
  }

  log(message: unknown, ...rest: unknown[]): void {
    if (this.every > 1 && isSuccess(message) && this.successes++ % this.every !== 0) return;
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
    // After the message, Nest's logger passes the stack, if any, and then the context: the name of the class that logs.
    let context: string | undefined;
    let stack: string | undefined;
    for (const part of rest) if (typeof part === 'string') [stack, context] = [context, part];
    if (typeof message === 'object' && message !== null && !(message instanceof Error)) {
      const customer = this.customers && message instanceof LogEntry && { customerId: message[CUSTOMER_ID] };
      this.logger[level]({ context, ...message, ...customer });
      return;
    }
    const err = [message, ...rest].find((part) => part instanceof Error);
    this.logger[level]({ context, stack, err }, message instanceof Error ? loggableMessage(message) : withoutCustomers(String(message)));
  }
}

/** Whether a message is the line of a request that succeeded and whose client got its whole answer. */
function isSuccess(message: unknown): boolean {
  const { msg, status, aborted } = (typeof message === 'object' && message !== null ? message : {}) as { readonly msg?: unknown; readonly status?: unknown; readonly aborted?: unknown };
  return msg === 'request' && typeof status === 'number' && status < 400 && aborted === undefined;
}
