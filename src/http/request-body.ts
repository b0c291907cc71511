import type { IncomingMessage } from 'node:http';
import { FREE_BYTES } from '../common/memory-budget.js';
import { ServiceError } from '../common/service-error.js';
import { BodyAlreadyReadError } from './body-already-read.js';
import { BodyArrival } from './body-arrival.js';
import type { BodyMemory } from './body-memory.js';
import { ClientRate } from './client-rate.js';
import { declaredLength } from './request-head.js';
import { type ExpectedDigest, verified } from './digest-fields.js';
import { exchangeOf } from './exchange.js';

export interface RequestBodyLimits {
  readonly idleTimeoutMs: number;
  /** The most bytes of the body before decoding; for `openJson`, after decoding. */
  readonly maxBytes: number;
  /** Digests of the body as it arrives, before decoding (RFC 9530, Content-Digest). */
  readonly digests?: readonly ExpectedDigest[];
  /** The memory of the body; undefined for a body that is only streamed. */
  readonly memory?: BodyMemory;
}

const EVENTS = ['readable', 'end', 'error', 'close'] as const;
const RATE_INTERVAL_MS = 1_000;

/**
 * Reads the body of a request, no faster than the caller consumes the bytes. Before reading, sends `100 Continue` if
 * the client waits for it. Ending the iteration early doesn't destroy the request, so that it can still be answered.
 *
 * @throws ServiceError `payload-too-large`; `request-timeout`; `client-aborted` when the connection broke;
 * `digest-mismatch`. BodyAlreadyReadError when other code of the application has read the body.
 */
export function requestBody(request: IncomingMessage, limits: RequestBodyLimits): AsyncGenerator<Buffer, void, undefined> {
  if (request.readableDidRead) throw new BodyAlreadyReadError();
  const bytes = receivedBody(request, limits);
  return limits.digests?.length ? verified(bytes, limits.digests) : bytes;
}

async function* receivedBody(
  request: IncomingMessage,
  { idleTimeoutMs, maxBytes, memory }: RequestBodyLimits,
): AsyncGenerator<Buffer, void, undefined> {
  const exchange = exchangeOf(request);
  if (exchange?.awaitsContinue) {
    exchange.awaitsContinue = false;
    exchange.response.writeContinue();
  }
  const length = declaredLength(request);
  const arrival = length !== undefined && length <= FREE_BYTES ? request : new BodyArrival(request);
  let rate: ClientRate | undefined;
  let events: RequestEvents | undefined;
  try {
    for (let bytes = 0; ; ) {
      const chunk = (await arrival.read()) as Buffer | null;
      if (chunk !== null) {
        bytes += chunk.length;
        if (bytes > maxBytes) throw new ServiceError('payload-too-large');
        rate?.received(chunk.length);
        yield chunk;
      } else if (request.readableEnded) {
        return;
      } else if (request.destroyed) {
        throw new ServiceError('client-aborted', 'The client aborted its request.', { cause: request.errored });
      } else if (bytes === length) {
        // The Content-Length is reached. Waiting for `end`, which Node emits later, would cost a small body a timer.
        request.resume();
        return;
      } else {
        events ??= new RequestEvents(request);
        // Only the rate of a body over 64 KiB, as received or decoded, is checked: no other may hold shared memory. What
        // has arrived may be decoded during the wait, so that the body holds memory only then.
        const currentRate = (): ClientRate | undefined => (bytes > FREE_BYTES || memory?.isHeld ? (rate ??= rateSince(bytes, memory)) : undefined);
        await nextEvent(events, currentRate, { memory, idleTimeoutMs });
      }
    }
  } finally {
    events?.stop();
  }
}

function rateSince(bytes: number, memory: BodyMemory | undefined): ClientRate {
  const rate = new ClientRate(memory);
  rate.received(bytes);
  return rate;
}

async function nextEvent(events: RequestEvents, currentRate: () => ClientRate | undefined, { memory, idleTimeoutMs }: Pick<RequestBodyLimits, 'memory' | 'idleTimeoutMs'>): Promise<void> {
  for (let waitedMs = 0; waitedMs < idleTimeoutMs; ) {
    const leftMs = idleTimeoutMs - waitedMs;
    const stepMs = memory || currentRate()?.isWatched ? Math.min(RATE_INTERVAL_MS, leftMs) : leftMs;
    const began = performance.now();
    const happened = await events.within(stepMs);
    currentRate()?.waited(performance.now() - began);
    if (happened) return;
    waitedMs += stepMs;
  }
  throw new ServiceError('request-timeout', 'The client sends nothing.');
}

class RequestEvents {
  private wake = (): void => undefined;
  private readonly notify = (): void => {
    this.wake();
  };

  constructor(private readonly request: IncomingMessage) {
    for (const event of EVENTS) request.on(event, this.notify);
  }

  within(milliseconds: number): Promise<boolean> {
    return new Promise((resolve) => {
      const timer = setTimeout(() => {
        resolve(false);
      }, milliseconds);
      this.wake = () => {
        clearTimeout(timer);
        resolve(true);
      };
    });
  }

  stop(): void {
    for (const event of EVENTS) this.request.off(event, this.notify);
  }
}
