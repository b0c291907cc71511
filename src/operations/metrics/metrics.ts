import { Injectable } from '@nestjs/common';
import type { ErrorKind } from '../../common/service-error.js';
import { UPLOAD_KINDS, type UploadKind } from '../../ingestion/domain/upload.js';
import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client';
import { bodyPace } from '../../http/body-pace.js';
import { decodingSlots } from '../../http/decoding-slots.js';
import { clockShiftMs } from '../../common/clock-shift.js';
import { processMemory } from '../../common/memory-budget.js';
import { waitingTurns } from '../../common/turns.js';

export const SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60];

const UPLOAD_FAILURES: readonly ErrorKind[] = [
  'storage-failure',
  'internal',
  'client-aborted',
  'request-timeout',
  'payload-too-large',
  'invalid-request-body',
  'digest-mismatch',
  'request-in-progress',
  'idempotency-key-reused',
];

export interface CallMetrics {
  readonly total: Counter<'operation' | 'outcome'>;
  readonly seconds: Histogram<'operation'>;
  inProgress: number;
}

function queueLengths(waitingLines: () => number | undefined): Gauge {
  return new Gauge({
    name: 'load_data_queue_length',
    help: 'Requests that wait for memory for their bodies, or for a slot to decode them, chunks of bodies and jobs that wait for the event loop, and index lines that wait for a flush',
    labelNames: ['queue'],
    registers: [],
    collect() {
      this.set({ queue: 'body_memory' }, processMemory.waitingCount);
      this.set({ queue: 'decoding' }, decodingSlots.arrived.waitingCount + decodingSlots.arriving.waitingCount);
      this.set({ queue: 'body_chunks' }, bodyPace.waitingCount);
      this.set({ queue: 'turns' }, waitingTurns());
      const lines = waitingLines();
      if (lines !== undefined) this.set({ queue: 'index' }, lines);
    },
  });
}

/**
 * The metrics of the service, in a registry of their own, so that those of two services in one process don't collide.
 */
@Injectable()
export class Metrics {
  readonly registry = new Registry();

  /** Uploads that this process has acknowledged, without those answered with an earlier receipt (`Idempotency-Key`). */
  readonly uploads: Record<UploadKind, { count: number; bytes: number }> = { historical: { count: 0, bytes: 0 }, nowcast: { count: 0, bytes: 0 } };
  readonly uploadFailures = this.counter('load_data_upload_failures_total', 'Uploads that failed', ['kind', 'reason']);
  readonly flushes = this.counter('load_data_flushes_total', 'Flushes of the index', ['outcome']);
  readonly flushedLines = this.counter('load_data_flushed_lines_total', 'Lines in the flushes of the index', []);
  readonly flushSeconds = this.histogram('load_data_flush_duration_seconds', 'Time of a flush of the index', []);
  readonly eventDeliveries = this.counter('load_data_event_deliveries_total', 'Deliveries of events', ['outcome']);
  readonly eventsDelivered = this.counter('load_data_events_delivered_total', 'Events in the deliveries that succeeded', ['type']);
  /**
   * When the oldest event happened that this process has still to deliver, or when the outbox failed while no such
   * event was known. As of the latest call of the outbox.
   */
  oldestEvent: Date | undefined;
  readonly bucketCalls: CallMetrics = {
    total: this.counter('load_data_bucket_calls_total', 'Calls to the bucket', ['operation', 'outcome']),
    seconds: this.histogram('load_data_bucket_call_duration_seconds', 'Time of a call to the bucket', ['operation']),
    inProgress: 0,
  };
  readonly bucketRetries = this.counter('load_data_bucket_retries_total', 'Requests to the bucket that were repeated', []);
  readWaitingLines: () => number | undefined = () => undefined;
  uploadsInProgress = 0;
  readonly providerCalls: CallMetrics = {
    total: this.counter('identity_provider_calls_total', 'Calls to the identity provider', ['operation', 'outcome']),
    seconds: this.histogram('identity_provider_call_duration_seconds', 'Time of a call to the identity provider', ['operation']),
    inProgress: 0,
  };

  constructor() {
    this.gauge('load_data_events_lag_seconds', 'Age of the oldest undelivered event, in seconds', () => {
      const oldestAt = this.oldestEvent?.getTime() ?? Infinity;
      return Math.max(0, (Date.now() - oldestAt) / 1000);
    });
    this.gauge('load_data_uploads_in_progress', 'Uploads in progress', () => this.uploadsInProgress);
    this.gauge('load_data_bucket_calls_in_progress', 'Calls to the bucket in progress', () => this.bucketCalls.inProgress);
    this.gauge('identity_provider_calls_in_progress', 'Calls to the identity provider in progress', () => this.providerCalls.inProgress);
    this.gauge('load_data_clock_shift_seconds', 'How far the clock of the machine was set forward since the start, in seconds', () => clockShiftMs() / 1000);
    this.registry.registerMetric(queueLengths(() => this.readWaitingLines()));
    const byKind = (of: 'count' | 'bytes') => () => UPLOAD_KINDS.map((kind) => ({ labels: { kind }, value: this.uploads[kind][of] }));
    this.tallied('load_data_uploads_total', 'Uploads acknowledged', ['kind'], byKind('count'));
    this.tallied('load_data_upload_bytes_total', 'Bytes of the files acknowledged', ['kind'], byKind('bytes'));
    for (const outcome of ['ok', 'failed']) this.eventDeliveries.inc({ outcome }, 0);
    for (const type of ['stored', 'removed']) this.eventsDelivered.inc({ type }, 0);
    collectDefaultMetrics({ register: this.registry });
    for (const kind of UPLOAD_KINDS) {
      // The time series of failures begin at 0, because a rate in Prometheus can't include the failure with which a
      // series begins.
      for (const reason of UPLOAD_FAILURES) this.uploadFailures.inc({ kind, reason }, 0);
    }
  }

  tallied<const Label extends string>(
    name: string,
    help: string,
    labelNames: Label[],
    series: () => Iterable<{ labels: Record<Label, string | number>; value: number }>,
  ): void {
    this.registry.registerMetric(
      new Counter({
        name,
        help,
        labelNames,
        registers: [],
        collect() {
          this.reset();
          for (const { labels, value } of series()) this.inc(labels, value);
        },
      }),
    );
  }

  private gauge(name: string, help: string, read: () => number): void {
    const gauge = new Gauge({
      name,
      help,
      registers: [this.registry],
      collect() {
        gauge.set(read());
      },
    });
  }

  private counter<const Label extends string>(name: string, help: string, labelNames: Label[]): Counter<Label> {
    return new Counter({ name, help, labelNames, registers: [this.registry] });
  }

  private histogram<const Label extends string>(name: string, help: string, labelNames: Label[]): Histogram<Label> {
    return new Histogram({ name, help, labelNames, buckets: SECONDS, registers: [this.registry] });
  }
}
