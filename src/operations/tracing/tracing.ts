import type { IncomingMessage, RequestListener, Server } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { Logger, type OnApplicationShutdown } from '@nestjs/common';
import { type Context, context, propagation, ROOT_CONTEXT, type Span, SpanKind, SpanStatusCode, trace, type Tracer } from '@opentelemetry/api';
import { W3CTraceContextPropagator } from '@opentelemetry/core';
import { defaultResource, detectResources, envDetector, resourceFromAttributes } from '@opentelemetry/resources';
import { BatchSpanProcessor, NodeTracerProvider, type SpanExporter } from '@opentelemetry/sdk-trace-node';
import type { Request } from 'express';
import type { Observer } from '../../common/observer.js';
import { ServiceError } from '../../common/service-error.js';
import type { TracingEnvironment } from '../../configuration/tracing.js';
import { supplyVariables } from '../../configuration/variables.js';
import { type EndedExchange, type Exchange, EXCHANGE_END, exchangeOf } from '../../http/exchange.js';
import { ClientSpans } from './client-spans.js';
import { ReportedExporter } from './reported-exporter.js';

const NAME = 'load-data-service';
const PROBES = /\/(?:health\/(?:live|ready)|metrics)$/;
const FLUSH_TIMEOUT_MS = 1_000;

/**
 * Traces requests, use cases, and calls to stores and providers by OpenTelemetry. The attributes of a span have no text
 * that a client sent, except the method, path and `X-Request-Id` of a request.
 */
export class Tracing implements OnApplicationShutdown {
  private readonly tracer: Tracer;
  private readonly clients: ClientSpans;
  private readonly spans = new WeakMap<Exchange, Span>();
  private readonly logger = new Logger('Tracing');

  private constructor(private readonly provider: NodeTracerProvider) {
    // If the service is part of another application, the process may have a tracer provider already. That provider then
    // stays in use.
    provider.register({ propagator: new W3CTraceContextPropagator() });
    this.tracer = trace.getTracer(NAME);
    this.clients = new ClientSpans(this.tracer);
  }

  static async start({ protocol, variables }: TracingEnvironment): Promise<Tracing> {
    supplyVariables(variables);
    const exporter = new ReportedExporter(await exporterOf(protocol));
    const resource = defaultResource()
      .merge(resourceFromAttributes({ 'service.name': NAME }))
      .merge(detectResources({ detectors: [envDetector] }));
    return new Tracing(new NodeTracerProvider({ resource, spanProcessors: [new BatchSpanProcessor(exporter)] }));
  }

  /** Gives a call a span if it is made within a span that is recorded. */
  readonly observe: Observer = (operation, call) => (trace.getActiveSpan()?.isRecording() ? this.observeAll(operation, call) : call());

  /** Gives a call a span, even if it isn't made within another span. */
  readonly observeAll: Observer = (operation, call) =>
    this.tracer.startActiveSpan(operation, async (span) => {
      try {
        return await call();
      } catch (error) {
        span.setAttribute('error.type', typeOf(error)).setStatus({ code: SpanStatusCode.ERROR });
        throw error;
      } finally {
        span.end();
      }
    });

  readonly logMembers = (): object => {
    const span = trace.getActiveSpan();
    return span ? { trace_id: span.spanContext().traceId } : {};
  };

  /**
   * Gives each further request a span, except probes and requests without an `Exchange`. Must be called before
   * `guardHttpEdge`, whose handler then runs first and creates the exchange of a request.
   */
  traceRequests(server: Server): void {
    const handlers = server.listeners('request') as RequestListener[];
    server.removeAllListeners('request').on('request', (request: IncomingMessage, response) => {
      context.with(this.begin(request), () => {
        for (const handle of handlers) handle.call(server, request, response);
      });
    });
    server.on(EXCHANGE_END, (exchange: EndedExchange) => { this.end(exchange); });
  }

  /** Exports the last spans, for at most a second: the exporter would go on repeating a failed request for ten. */
  async onApplicationShutdown(): Promise<void> {
    this.clients.stop();
    const isLate = delay(FLUSH_TIMEOUT_MS, true, { ref: false });
    if (await Promise.race([this.provider.shutdown().then(() => false), isLate])) this.logger.warn('The last traces were lost: the receiver took too long.');
  }

  private begin(request: IncomingMessage): Context {
    const exchange = exchangeOf(request);
    if (!exchange || PROBES.test(exchange.path)) return ROOT_CONTEXT;
    const parent = propagation.extract(ROOT_CONTEXT, request.headers);
    const { method = '' } = request;
    const attributes = { 'http.request.method': method, 'url.path': exchange.path, 'url.scheme': 'http', 'http.response.header.x-request-id': [exchange.requestId] };
    const span = this.tracer.startSpan(method, { kind: SpanKind.SERVER, startTime: exchange.startedAt, attributes }, parent);
    this.spans.set(exchange, span);
    exchange.traceId = span.spanContext().traceId;
    return trace.setSpan(parent, span);
  }

  private end(exchange: EndedExchange): void {
    const span = this.spans.get(exchange);
    if (!span?.isRecording()) return;
    const { request, response, uploadId, refusal, endedAt } = exchange;
    const { path: route } = ((request as Request).route ?? {}) as { readonly path?: string };
    if (route !== undefined) span.updateName(`${request.method ?? ''} ${route}`).setAttribute('http.route', route);
    if (uploadId !== undefined) span.setAttribute('load_data.upload_id', uploadId);
    if (response.headersSent) span.setAttribute('http.response.status_code', response.statusCode);
    if (refusal) span.setAttribute('error.type', refusal.kind);
    else if (!response.writableFinished) span.setAttribute('error.type', 'aborted');
    if (response.statusCode >= 500) span.setStatus({ code: SpanStatusCode.ERROR });
    span.end(endedAt);
  }
}

async function exporterOf(protocol: TracingEnvironment['protocol']): Promise<SpanExporter> {
  const { OTLPTraceExporter } = protocol === 'http/json' ? await import('@opentelemetry/exporter-trace-otlp-http') : await import('@opentelemetry/exporter-trace-otlp-proto');
  return new OTLPTraceExporter();
}

/** Describes an error in a span by its kind or name. Its message isn't traced, because it can contain customer ids. */
const typeOf = (error: unknown): string => {
  if (error instanceof ServiceError) return error.kind;
  return error instanceof Error ? error.name : typeof error;
};
