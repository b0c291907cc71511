import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { type BeforeApplicationShutdown, Injectable, Logger, type OnApplicationBootstrap } from '@nestjs/common';
import type { EventOutbox, OutboxBatch, OutboxEvent } from './ports/event-outbox.port.js';
import { FileStorage } from './ports/file-storage.port.js';
import { DeliveryError, UploadEvents } from './ports/upload-events.port.js';
import { uploadEventOf } from './upload-event.js';

/** The most events in one delivery to the receiver. */
const MOST_EVENTS = 500;
const FIRST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 5 * 60 * 1000;
/**
 * How long to let further events gather, in milliseconds. The relay does so only after a delivery of fewer than
 * MOST_EVENTS events, the last of which is younger than this.
 */
const GATHERING_MS = 200;
/**
 * How long the boot of the service waits for the outbox to open, in milliseconds. Opening takes longer while the store
 * is unavailable.
 */
const OPENING_MS = 5_000;
/**
 * How long a delivery in progress may continue after the service began to stop, in milliseconds. Then it is aborted.
 */
const ENDING_MS = 700;

/** Settings of the relay, apart from its adapters. */
export class EventRelayOptions {
  constructor(
    /**
     * The `source` of each event: the service's base URL. If it is a promise, no event is delivered before it resolves.
     */
    readonly source: string | Promise<string>,
    /** Waits for the given number of milliseconds; rejects when the signal aborts. Tests replace it. */
    readonly sleep: (milliseconds: number, signal: AbortSignal) => Promise<void> = (milliseconds, signal) => delay(milliseconds, undefined, { signal, ref: false }),
  ) {}
}

/**
 * Takes the events of the store's outbox and delivers them to a receiver, one batch at a time. A failed delivery is
 * repeated until it succeeds, with pauses of about 1 s, 2 s, 4 s, and so on up to five minutes, shortened at random by
 * up to half. A pause is longer if the receiver asks for that, but never over five minutes. Uploads never wait for a
 * delivery.
 */
@Injectable()
export class EventRelay implements OnApplicationBootstrap, BeforeApplicationShutdown {
  private readonly logger = new Logger(EventRelay.name);
  /** Aborts when the service stops. Ends all pauses, and lets no further delivery begin. */
  private readonly stopping = new AbortController();
  /** Aborts the delivery in progress, ENDING_MS after the service began to stop. */
  private readonly cutting = new AbortController();
  private running: Promise<void> | undefined;

  constructor(
    private readonly fileStorage: FileStorage,
    private readonly events: UploadEvents,
    private readonly options: EventRelayOptions,
  ) {}

  /**
   * Opens the outbox when the application starts. Resolves when it is open, so that every upload from then on gets an
   * event. After OPENING_MS the promise resolves anyway, and the outbox is opened later.
   */
  async onApplicationBootstrap(): Promise<void> {
    const { eventOutbox: outbox } = this.fileStorage;
    if (!outbox) {
      this.logger.warn("Events are not delivered, because the store doesn't offer an outbox (FileStorage.eventOutbox).");
      return;
    }
    const opened = this.untilSuccess(() => outbox.open());
    this.running = opened
      .then(() => this.relay(outbox))
      .catch((error: unknown) => {
        this.logger.error('The delivery of events has ended; restart the service.', error);
      });
    await Promise.race([opened, delay(OPENING_MS, undefined, { signal: this.stopping.signal, ref: false })]).catch(() => undefined);
  }

  async beforeApplicationShutdown(): Promise<void> {
    const ended = (): Promise<void> => Promise.race([this.running, delay(ENDING_MS, undefined, { ref: false })]);
    this.stopping.abort();
    await ended();
    this.cutting.abort();
    await ended();
  }

  private async relay(outbox: EventOutbox): Promise<void> {
    if (this.isStopping()) return;
    const stopped = once(this.stopping.signal, 'abort').then(() => undefined);
    const source = await Promise.race([this.options.source, stopped]);
    while (source !== undefined && !this.isStopping()) {
      const batch = await this.deliverNext(outbox, source);
      if (!batch) await outbox.wait(this.stopping.signal);
      else if (await this.untilSuccess(() => batch.confirm().then(() => true))) await this.gather(batch);
    }
    await outbox.close().catch((error: unknown) => {
      this.logger.warn('Leaving the events to another process failed.', error);
    });
  }

  /**
   * Delivers the next batch, again and again until it succeeds. Resolves to the delivered batch; undefined if no event
   * waits, or if the service stops before the delivery succeeds.
   */
  private deliverNext(outbox: EventOutbox, source: string): Promise<OutboxBatch | undefined> {
    let limit = MOST_EVENTS;
    return this.untilSuccess(async () => {
      const batch = await outbox.next(limit);
      if (!batch) return undefined;
      // A repeated delivery has the same events as the failed one, although more may have been stored meanwhile.
      limit = batch.events.length;
      await this.events.deliver(batch.events.map((event) => uploadEventOf(event, source)), this.cutting.signal);
      return batch;
    });
  }

  /**
   * Pauses after a batch that isn't full and whose last event is younger than GATHERING_MS, so that further events can
   * gather.
   */
  private async gather({ events }: OutboxBatch): Promise<void> {
    if (events.length < MOST_EVENTS && Math.abs(Date.now() - timeOf(events.at(-1))) < GATHERING_MS) await this.pause(GATHERING_MS);
  }

  /**
   * Repeats a step until it succeeds, with a growing pause after each failure. Resolves to undefined if the service
   * stops before that.
   */
  private async untilSuccess<T>(step: () => Promise<T>): Promise<T | undefined> {
    for (let failures = 1; ; failures++) {
      try {
        const result = await step();
        if (failures > 1) this.logger.log('Events are delivered again.');
        return result;
      } catch (error) {
        if (!this.isStopping()) {
          if (failures === 1) this.logger.warn('Delivering events failed; retrying until it succeeds.', error);
          await this.pause(pauseAfter(failures, error));
        }
        if (this.isStopping()) return undefined;
      }
    }
  }

  private isStopping(): boolean {
    return this.stopping.signal.aborted;
  }

  private async pause(milliseconds: number): Promise<void> {
    await this.options.sleep(milliseconds, this.stopping.signal).catch(() => undefined);
  }
}

/**
 * How long to wait after `failures` failures in a row, in milliseconds. At least as long as the receiver asks for, but
 * at most LONGEST_PAUSE_MS.
 */
function pauseAfter(failures: number, error: unknown): number {
  const growing = FIRST_PAUSE_MS * 2 ** Math.min(failures - 1, 20) * (0.5 + Math.random() / 2);
  const wanted = error instanceof DeliveryError ? (error.retryAfterSeconds ?? 0) * 1000 : 0;
  return Math.min(Math.max(growing, wanted), LONGEST_PAUSE_MS);
}

const timeOf = (event: OutboxEvent | undefined): number => (event?.type === 'stored' ? event.upload.receivedAt : event?.removedAt)?.getTime() ?? 0;
