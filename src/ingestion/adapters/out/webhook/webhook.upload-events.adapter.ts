import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';
import type { OnApplicationShutdown } from '@nestjs/common';
import { Agent, type Dispatcher, errors, request } from 'undici';
import { DeliveryError, type UploadEvent, UploadEvents } from '../../../application/ports/upload-events.port.js';
import { encodeBatch } from './encoded-batch.js';
import { signatureOf } from './signature.js';

/** The longest headers of an answer that are read. */
const MAX_HEADER_BYTES = 64 * 1024;
/** The longest answer that is read. After a longer one, the connection is closed and not used again. */
const MAX_ANSWER_BYTES = 16 * 1024;
/** Idle connections are kept for less time than by most servers, so that none is closed just before its use. */
const KEPT_ALIVE_MS = 1_000;

export interface WebhookOptions {
  /** The webhook's http or https URL. A user and password in the URL are sent as HTTP Basic. */
  readonly url: string;
  /** The secrets for signing, at least one. Each request is signed once with each secret. */
  readonly secrets: readonly Uint8Array[];
  /** How long the webhook may take to answer a request, in milliseconds. Default: 15,000. */
  readonly timeoutMs?: number;
}

/**
 * Delivers events to a webhook. Each call sends one POST with a CloudEvents 1.0 batch, signed as in Standard Webhooks
 * 1.0. Redirects aren't followed. Deliveries of the same events in the same order have the same `webhook-id`, so that
 * the receiver recognizes a repetition.
 */
export class WebhookUploadEvents extends UploadEvents implements OnApplicationShutdown {
  private readonly agent: Agent;
  private readonly url: URL;
  private readonly headers: Readonly<Record<string, string>>;
  private readonly timeoutMs: number;

  constructor(private readonly options: WebhookOptions) {
    super();
    this.timeoutMs = options.timeoutMs ?? 15_000;
    this.url = new URL(options.url);
    const { username, password } = this.url;
    [this.url.username, this.url.password] = ['', ''];
    this.headers = {
      'content-type': 'application/cloudevents-batch+json',
      'user-agent': 'load-data-service',
      ...(username + password !== '' && { authorization: basic(username, password) }),
    };
    this.agent = new Agent({
      connections: 1,
      maxHeaderSize: MAX_HEADER_BYTES,
      connect: { timeout: this.timeoutMs },
      keepAliveTimeout: KEPT_ALIVE_MS,
      keepAliveMaxTimeout: KEPT_ALIVE_MS,
      // undici's own limits are off, because the time limit in `post` covers the whole exchange.
      headersTimeout: 0,
      bodyTimeout: 0,
    });
  }

  override async deliver(events: readonly UploadEvent[], signal: AbortSignal): Promise<void> {
    const body = await encodeBatch(events);
    const id = webhookId(events);
    const timestamp = Math.floor(Date.now() / 1000);
    const signature = await signatureOf(this.options.secrets, id, timestamp, body);
    const length = body.reduce((sum, piece) => sum + piece.length, 0);
    const headers = { ...this.headers, 'content-length': String(length), 'webhook-id': id, 'webhook-timestamp': String(timestamp), 'webhook-signature': signature };
    const answer = await this.post(body, headers, signal);
    const { statusCode: status } = answer;
    if (status < 200 || status > 299) throw new DeliveryError(`The webhook answered ${status}.`, { retryAfterSeconds: retryAfterOf(answer) });
  }

  private async post(body: readonly Buffer[], headers: Readonly<Record<string, string>>, signal: AbortSignal): Promise<Dispatcher.ResponseData> {
    signal.throwIfAborted();
    // `AbortSignal.any` isn't used, because it may keep memory of each delivery for as long as `signal` exists.
    const exchange = new AbortController();
    const end = (): void => { exchange.abort(); };
    const timer = setTimeout(end, this.timeoutMs);
    signal.addEventListener('abort', end);
    try {
      const answer = await request(this.url, { method: 'POST', headers, body: body.length === 1 ? body[0] : Readable.from(body), dispatcher: this.agent, signal: exchange.signal });
      await passOver(answer, exchange.signal);
      return answer;
    } catch (cause) {
      signal.throwIfAborted();
      if (exchange.signal.aborted) throw new DeliveryError(`The webhook didn't answer within ${this.timeoutMs} ms.`, { cause });
      throw new DeliveryError(isUnreadable(cause) ? "The webhook's answer can't be read." : "The webhook can't be reached.", { cause });
    } finally {
      clearTimeout(timer);
      signal.removeEventListener('abort', end);
    }
  }

  async onApplicationShutdown(): Promise<void> {
    await this.agent.destroy();
  }
}

/** Reads a short body to its end, so that the connection can be used again. */
async function passOver({ body }: Dispatcher.ResponseData, signal: AbortSignal): Promise<void> {
  // Without a listener, an error of the body would end the process. `dump` adds none if the signal has aborted.
  body.on('error', () => undefined);
  await body.dump({ limit: MAX_ANSWER_BYTES, signal }).catch(() => undefined);
}

/** Whether undici refused an answer: its headers are too long, it isn't HTTP, or it begins with `100 Continue`. */
function isUnreadable(error: unknown): boolean {
  if (error instanceof errors.SocketError) return error.message === 'bad response' || error.message === 'bad upgrade';
  return error instanceof errors.HeadersOverflowError || error instanceof errors.HTTPParserError || error instanceof errors.ResponseContentLengthMismatchError;
}

function webhookId(events: readonly UploadEvent[]): string {
  const ids = events.map(({ id }) => `${id}\n`).join('');
  return `msg_${createHash('sha256').update(ids).digest('base64url').slice(0, 32)}`;
}

/** The `Retry-After` of an answer, in seconds from now. Only for status 429 or 503 (RFC 9110, 10.2.3). */
function retryAfterOf({ statusCode, headers }: Dispatcher.ResponseData): number | undefined {
  const value = headers['retry-after'];
  if ((statusCode !== 429 && statusCode !== 503) || typeof value !== 'string') return undefined;
  // `Date.parse` takes 2.5 for a date, so a date must begin with its weekday (RFC 9110, 5.6.7). The asctime form names no
  // zone, so GMT is added. The other forms have it already, and a second one does no harm.
  const seconds = /^\d{1,9}$/.test(value) ? Number(value) : (Date.parse(/^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)/.test(value) ? `${value} GMT` : '') - Date.now()) / 1000;
  return Number.isNaN(seconds) ? undefined : Math.max(0, seconds);
}

const basic = (username: string, password: string): string =>
  `Basic ${Buffer.from(`${decodeURIComponent(username)}:${decodeURIComponent(password)}`).toString('base64')}`;
