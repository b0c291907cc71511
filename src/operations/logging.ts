import { fstatSync, write, writeSync } from 'node:fs';
import type { LoggerService } from '@nestjs/common';
import { type Logger, pino } from 'pino';
import { hasCode } from '../common/error-code.js';
import { LogEntry, PERSONAL, SUBJECT } from '../http/exchange.js';
import { MIB } from '../common/sizes.js';
import { LOG_SERIALIZERS, loggableMessage, PRETTY, withoutCustomers } from './log-format.js';

/** The output that all loggers share, because each LogOutput adds a listener to `process`. */
let standardOutput: LogOutput | undefined;

/**
 * Creates a logger that writes JSON lines to standard output, or readable text if standard output is a terminal.
 *
 * @param members returns further members for each line.
 */
export async function createLogger(level: string, members?: () => object): Promise<Logger> {
  const options = { level, base: null, serializers: LOG_SERIALIZERS, ...(members && { mixin: members }) };
  if (!process.stdout.isTTY) return pino(options, (standardOutput ??= new LogOutput(1)));
  const { default: pretty } = await import('pino-pretty');
  return pino(options, pretty({ ...PRETTY, sync: true, colorize: true }));
}

const BOOT_DETAILS = new Set(['InstanceLoader', 'RoutesResolver', 'RouterExplorer', 'NestFactory', 'NestApplication']);

/** The sources of Nest's errors about a failed boot. These aren't logged, because the command `serve` explains them. */
const BOOT_FAILURES = new Set(['ExceptionHandler', 'NestApplication']);

export interface LogOptions {
  /** One in this many log lines of successful requests is written (default: 1). */
  readonly every?: number;
  readonly customers?: boolean;
  /** Whether lines of requests have the `sub` claim of the token. */
  readonly subjects?: boolean;
}

/** A logger for Nest that writes with pino. */
export class PinoLoggerService implements LoggerService {
  private readonly every: number;
  private readonly customers: boolean;
  private readonly subjects: boolean;
  private successes = 0;
  /** By the sources of `LogEntry`s. pino encodes the name of a source once for each of them, and not for each line. */
  private readonly loggers = new Map<string | undefined, Logger>();

  constructor(
    private readonly logger: Logger,
    { every = 1, customers = false, subjects = false }: LogOptions = {},
  ) {
    this.every = every;
    this.customers = customers;
    this.subjects = subjects;
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
    // The last text after the message is the context, the name of the class that logs; one before it is the stack.
    let context: string | undefined;
    let stack: string | undefined;
    for (const part of rest) if (typeof part === 'string') [stack, context] = [context, part];
    if (typeof message === 'object' && message !== null && !(message instanceof Error)) {
      if (message instanceof LogEntry && !this.customers && !this.subjects) {
        (this.loggers.get(context) ?? this.loggerOf(context))[level](message);
        return;
      }
      const personal = message instanceof LogEntry ? message[PERSONAL] : undefined;
      const customer = this.customers && { customerId: personal?.customerId };
      const subject = this.subjects && { subject: personal?.request[SUBJECT] };
      this.logger[level]({ context, ...message, ...customer, ...subject });
      return;
    }
    const err = [message, ...rest].find((part) => part instanceof Error);
    this.logger[level]({ context, stack, err }, message instanceof Error ? loggableMessage(message) : withoutCustomers(String(message)));
  }

  private loggerOf(context: string | undefined): Logger {
    const logger = this.logger.child({ context });
    this.loggers.set(context, logger);
    return logger;
  }
}

function isSuccess(message: unknown): boolean {
  const { msg, status, aborted } = (typeof message === 'object' && message !== null ? message : {}) as { readonly msg?: unknown; readonly status?: unknown; readonly aborted?: unknown };
  return msg === 'request' && typeof status === 'number' && status < 400 && aborted === undefined;
}

/**
 * Lines are collected up to this many characters, or for 100 ms: writing each by itself took 8 % of the time of a small
 * upload. A crash can lose the collected lines.
 */
const WRITTEN_AT_LENGTH = 4096;
const WRITTEN_AFTER_MS = 100;
/** While this many characters wait to be written, further lines are dropped, so that memory doesn't run out. */
const WAITING_LENGTH = 16 * MIB;
const END_TIMEOUT_MS = 1_000;
const END_RETRY_MS = 5;

const EMPTY = Buffer.alloc(0);

/**
 * Writes log lines to a file descriptor. The destination of pino (sonic-boom) isn't used, because at the exit it writes
 * its last lines in a loop that never ends if a pipe has no reader or a disk is full. Here, lines that can't be written
 * are dropped.
 *
 * Lines to a file are written in the background, because a slow disk would stop the event loop. Lines to a pipe are
 * written synchronously: Node has made the pipe of standard output non-blocking, so if the pipe is full, the write
 * fails at once and is repeated later.
 */
class LogOutput {
  private lines = '';
  private bytes: Buffer = EMPTY;
  private isWriting = false;
  private timer: NodeJS.Timeout | undefined;
  private readonly isFile: boolean;

  constructor(private readonly descriptor: number) {
    this.isFile = fstatSync(descriptor).isFile();
    process.on('exit', () => {
      this.end();
    });
  }

  write(line: string): void {
    if (this.lines.length >= WAITING_LENGTH) return;
    this.lines += line;
    if (this.bytes.length === 0) this.writeSoon();
  }

  private writeSoon(): void {
    if (this.lines.length >= WRITTEN_AT_LENGTH) this.writeNow();
    else this.timer ??= setTimeout(this.writeNow, WRITTEN_AFTER_MS).unref();
  }

  private readonly writeNow = (): void => {
    clearTimeout(this.timer);
    this.timer = undefined;
    while (!this.isWriting && this.lines.length + this.bytes.length > 0) {
      this.takeLines();
      if (this.isFile) {
        this.isWriting = true;
        write(this.descriptor, this.bytes, (error, written) => {
          this.isWriting = false;
          this.bytes = error ? EMPTY : this.bytes.subarray(written);
          if (this.bytes.length > 0) this.writeNow();
          else if (this.lines.length > 0) this.writeSoon();
        });
      } else if (!this.tryToWrite()) {
        this.timer = setTimeout(this.writeNow, WRITTEN_AFTER_MS).unref();
        return;
      }
    }
  };

  private takeLines(): void {
    if (this.bytes.length > 0) return;
    this.bytes = Buffer.from(this.lines);
    this.lines = '';
  }

  private tryToWrite(): boolean {
    try {
      this.bytes = this.bytes.subarray(writeSync(this.descriptor, this.bytes));
    } catch (error) {
      if (hasCode(error, 'EAGAIN')) return false;
      this.bytes = EMPTY;
    }
    return true;
  }

  /** Writes the last lines at the exit, within a second. Skips bytes in flight: the process waits for that write. */
  private end(): void {
    if (this.isWriting) this.bytes = EMPTY;
    const latest = performance.now() + END_TIMEOUT_MS;
    const sleeper = new Int32Array(new SharedArrayBuffer(4));
    while (this.lines.length + this.bytes.length > 0 && performance.now() < latest) {
      this.takeLines();
      if (!this.tryToWrite()) Atomics.wait(sleeper, 0, 0, END_RETRY_MS);
    }
  }
}
