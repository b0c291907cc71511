import type { Server, ServerOptions } from './server.mjs';

export interface OtelCollectorOptions extends ServerOptions {
  /** The only Content-Encoding that the collector accepts. Default: '', which is none. */
  encoding?: '' | 'gzip';
}

/** A span as the collector received it. Ids are in hex. */
export interface CollectedSpan {
  readonly traceId: string;
  readonly spanId: string;
  /** The id of the parent span. Empty for the first span of a trace. */
  readonly parentSpanId: string;
  readonly name: string;
}

/** An OpenTelemetry Collector on the loopback interface, which receives traces by OTLP/HTTP. */
export interface OtelCollector extends Server {
  /** The spans received so far, oldest first. */
  readonly spans: readonly CollectedSpan[];
}

export function isOtelCollectorAvailable(): boolean;
export function installOtelCollector(): Promise<void>;
export function startOtelCollector(options?: OtelCollectorOptions): Promise<OtelCollector>;
