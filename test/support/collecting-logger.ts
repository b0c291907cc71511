import type { LoggerService } from '@nestjs/common';

/** Collects log entries as text. */
export class CollectingLogger implements LoggerService {
  readonly entries: { level: string; text: string }[] = [];
  readonly objects: object[] = [];

  get text(): string {
    return this.entries.map(({ text }) => text).join('\n');
  }

  log(...parts: unknown[]): void {
    this.keep('info', parts);
  }

  error(...parts: unknown[]): void {
    this.keep('error', parts);
  }

  warn(...parts: unknown[]): void {
    this.keep('warn', parts);
  }

  private keep(level: string, parts: unknown[]): void {
    for (const part of parts) if (typeof part === 'object' && part !== null && !(part instanceof Error)) this.objects.push(part);
    this.entries.push({ level, text: parts.map((part) => describe(part)).join(' ') });
  }
}

function describe(part: unknown): string {
  return typeof part === 'string' ? part : JSON.stringify(part, (_key, value: unknown) => plain(value));
}

function plain(value: unknown): unknown {
  return value instanceof Error ? { message: value.message, stack: value.stack, cause: value.cause } : value;
}
