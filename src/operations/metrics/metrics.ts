import { Injectable } from '@nestjs/common';
import type { ErrorKind } from '../../common/service-error.js';
import { UPLOAD_KINDS } from '../../ingestion/domain/upload.js';
import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client';

const SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60];

/** The kinds of error with which storing an upload can fail, as values of the label `reason`. */
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

/** The metrics of the service. They have their own registry, so that two services in one process don't collide. */
@Injectable()
export class Metrics {
  readonly registry = new Registry();

  readonly requests = this.counter('http_requests_total', 'HTTP requests answered', ['method', 'route', 'status']);
  readonly requestSeconds = this.histogram('http_request_duration_seconds', 'Time from head to answer', ['method', 'route']);
  readonly uploads = this.counter('load_data_uploads_total', 'Uploads acknowledged', ['kind']);
  readonly uploadBytes = this.counter('load_data_upload_bytes_total', 'Bytes of the files acknowledged', ['kind']);
  readonly uploadFailures = this.counter('load_data_upload_failures_total', 'Uploads that failed', ['kind', 'reason']);
  readonly flushes = this.counter('load_data_flushes_total', 'Flushes of the index', ['outcome']);
  readonly flushedLines = this.counter('load_data_flushed_lines_total', 'Lines in the flushes of the index', []);
  readonly flushSeconds = this.histogram('load_data_flush_duration_seconds', 'Time of a flush of the index', []);
  readonly eventDeliveries = this.counter('load_data_event_deliveries_total', 'Deliveries of events', ['outcome']);
  readonly eventsDelivered = this.counter('load_data_events_delivered_total', 'Events in the deliveries that succeeded', ['type']);
  /** When the oldest event happened that was not delivered yet; undefined if all events were delivered. */
  oldestEvent: Date | undefined;
  readonly providerCalls = this.counter('identity_provider_calls_total', 'Calls to the identity provider', [
    'operation',
    'outcome',
  ]);
  readonly providerSeconds = this.histogram('identity_provider_call_duration_seconds', 'Time of a call to the identity provider', [
    'operation',
  ]);

  constructor() {
    this.registry.registerMetric(this.eventsLag());
    for (const outcome of ['ok', 'failed']) this.eventDeliveries.inc({ outcome }, 0);
    for (const type of ['stored', 'removed']) this.eventsDelivered.inc({ type }, 0);
    collectDefaultMetrics({ register: this.registry });
    for (const kind of UPLOAD_KINDS) {
      this.uploads.inc({ kind }, 0);
      this.uploadBytes.inc({ kind }, 0);
      // Each time series begins at 0. If it began with the first failure, a rate in Prometheus couldn't include that
      // failure.
      for (const reason of UPLOAD_FAILURES) this.uploadFailures.inc({ kind, reason }, 0);
    }
  }

  private eventsLag(): Gauge {
    const oldestAt = (): number => this.oldestEvent?.getTime() ?? Infinity;
    return new Gauge({
      name: 'load_data_events_lag_seconds',
      help: 'Age of the oldest undelivered event, in seconds',
      registers: [],
      collect() {
        this.set(Math.max(0, (Date.now() - oldestAt()) / 1000));
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
