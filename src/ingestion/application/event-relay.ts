import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { type BeforeApplicationShutdown, Injectable, Logger, type OnApplicationBootstrap } from '@nestjs/common';
import type { EventOutbox, OutboxBatch, OutboxEvent } from './ports/event-outbox.port.js';
import { FileStorage } from './ports/file-storage.port.js';
import { DeliveryError, UploadEvents } from './ports/upload-events.port.js';
import { uploadEventOf } from './upload-event.js';

const MAX_EVENTS = 500;
const FIRST_PAUSE_MS = 1_000;
const MAX_PAUSE_MS = 5 * 60 * 1000;
/**
 * During a pause of 10 s or more, another process may deliver the events, unless the receiver asked for the pause.
 * Processes that aren't pausing look for events at shorter intervals, so they have the time to take over.
 */
const GIVING_WAY_MS = 10_000;
/** The pause after an incomplete batch of new events, in which more events gather for the next one. */
const GATHERING_MS = 200;
/** While the event loop is busy with other work, such as uploads, at most 500 events a second are delivered. */
const BUSY_MS_PER_EVENT = 2;
/** How long the relay looks whether the event loop is busy, after every MAX_EVENTS or more. */
const LOOKING_MS = 5;
/** The share of its time that other work must take for the event loop to count as busy. */
const BUSY_SHARE = 0.6;
const OPENING_MS = 5_000;
const ENDING_MS = 700;

/** Settings of the relay, apart from its adapters. */
export class EventRelayOptions {
  constructor(
    /** The `source` of each event. If it is a promise, no event is delivered before it resolves. */
    readonly source: string | Promise<string>,
    /** Waits; rejects when the signal aborts. Tests replace this function. */
    readonly sleep: (milliseconds: number, signal: AbortSignal) => Promise<void> = (milliseconds, signal) => delay(milliseconds, undefined, { signal, ref: false }),
  ) {}
}

/**
 * Delivers the events of the store's outbox to a receiver, one batch at a time. A failed delivery is repeated until it
 * succeeds. The pauses are 1 s, 2 s, 4 s and so on, each shortened at random by up to half. The receiver can ask for a
 * longer pause. No pause is longer than five minutes. Uploads never wait for a delivery. While other work keeps the
 * event loop busy, at most 500 events a second are delivered: they can wait, and uploads can't.
 *
 * During a pause of GIVING_WAY_MS (10 s) or more, another process of the store may deliver: it may reach a receiver
 * that this process can't reach. During a pause that the receiver asked for, none may: this process did reach it.
 */
@Injectable()
export class EventRelay implements OnApplicationBootstrap, BeforeApplicationShutdown {
  private readonly logger = new Logger(EventRelay.name);
  private readonly stopping = new AbortController();
  private readonly cutting = new AbortController();
  private running: Promise<void> | undefined;
  /** Whether a delivery is in progress, or has ended and isn't confirmed yet. */
  private isDelivering = false;
  /** Failed attempts in a row. After giving way to another process, finding no events doesn't end the row. */
  private failures = 0;
  private hasGivenWay = false;
  /** When the relay last looked whether the event loop is busy, in milliseconds, and the events delivered since then. */
  private readonly pace = { since: 0, events: 0 };

  constructor(
    private readonly fileStorage: FileStorage,
    private readonly events: UploadEvents,
    private readonly options: EventRelayOptions,
  ) {}

  /**
   * Resolves when the outbox is open: every upload that is stored from then on gets an event. If opening takes longer
   * than 5 s, resolves anyway, and the outbox opens later. Without an outbox, only logs a warning.
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

  /**
   * Begins no further delivery. Resolves when the one in progress, if any, has ended and is confirmed or has failed: after
   * up to 15 s with a webhook.
   */
  async finish(): Promise<void> {
    this.stopping.abort();
    if (this.isDelivering) await this.running;
  }

  /** Begins no further delivery, and breaks off one that takes longer than ENDING_MS (0.7 s). */
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
      else if (await this.confirm(batch)) await this.rest(batch);
    }
    await outbox.close().catch((error: unknown) => {
      this.logger.warn('Leaving the events to another process failed.', error);
    });
  }

  private deliverNext(outbox: EventOutbox, source: string): Promise<OutboxBatch | undefined> {
    let limit = MAX_EVENTS;
    return this.untilSuccess(async () => {
      const batch = await outbox.next(limit);
      if (!batch || this.isStopping()) return undefined;
      // If the delivery fails, the next attempt delivers the same events, except those of uploads removed since.
      limit = batch.events.length;
      this.isDelivering = true;
      await this.events.deliver(batch.events.map((event) => uploadEventOf(event, source)), this.cutting.signal).catch((error: unknown) => {
        this.isDelivering = false;
        throw error;
      });
      return batch;
    }, outbox);
  }

  private async confirm(batch: OutboxBatch): Promise<boolean> {
    const isConfirmed = await this.untilSuccess(() => batch.confirm().then(() => true));
    this.isDelivering = false;
    return isConfirmed === true;
  }

  private async rest({ events }: OutboxBatch): Promise<void> {
    if (events.length < MAX_EVENTS && Math.abs(Date.now() - timeOf(events.at(-1))) < GATHERING_MS) await this.pause(GATHERING_MS);
    this.pace.events += events.length;
    if (this.pace.events >= MAX_EVENTS) await this.giveUploadsTheirTurn();
  }

  private async giveUploadsTheirTurn(): Promise<void> {
    const before = performance.eventLoopUtilization();
    await this.pause(LOOKING_MS);
    const rest = this.pace.since + this.pace.events * BUSY_MS_PER_EVENT - performance.now();
    if (rest > 0 && performance.eventLoopUtilization(before).utilization > BUSY_SHARE) await this.pause(rest);
    this.pace.since = performance.now();
    this.pace.events = 0;
  }

  private async untilSuccess<T>(step: () => Promise<T>, outbox?: EventOutbox): Promise<T | undefined> {
    for (;;) {
      try {
        const result = await step();
        // Finding no events after giving way isn't a success: another process may have delivered them in the meantime.
        if (result === undefined && this.hasGivenWay) return undefined;
        if (this.failures > 0) this.logger.log('Events are delivered again.');
        this.failures = 0;
        this.hasGivenWay = false;
        return result;
      } catch (error) {
        if (!this.isStopping()) {
          this.failures += 1;
          if (this.failures === 1) this.logger.warn('Delivering events failed; retrying until it succeeds.', error);
          const pauseMs = pauseAfter(this.failures, error);
          await Promise.all([this.pause(pauseMs), outbox && pauseMs >= GIVING_WAY_MS && !isAskedFor(error) && this.giveWay(outbox)]);
        }
        if (this.isStopping()) return undefined;
      }
    }
  }

  private async giveWay(outbox: EventOutbox): Promise<void> {
    this.hasGivenWay = true;
    await outbox.giveWay().catch((error: unknown) => {
      this.logger.warn('Leaving the events to another process failed.', error);
    });
  }

  private isStopping(): boolean {
    return this.stopping.signal.aborted;
  }

  private async pause(milliseconds: number): Promise<void> {
    await this.options.sleep(milliseconds, this.stopping.signal).catch(() => undefined);
  }
}

function pauseAfter(failures: number, error: unknown): number {
  const growing = FIRST_PAUSE_MS * 2 ** Math.min(failures - 1, 20) * (0.5 + Math.random() / 2);
  const wanted = error instanceof DeliveryError ? (error.retryAfterSeconds ?? 0) * 1000 : 0;
  return Math.min(Math.max(growing, wanted), MAX_PAUSE_MS);
}

const isAskedFor = (error: unknown): boolean => error instanceof DeliveryError && error.retryAfterSeconds !== undefined;

const timeOf = (event: OutboxEvent | undefined): number => (event?.type === 'stored' ? event.upload.receivedAt : event?.removedAt)?.getTime() ?? 0;
