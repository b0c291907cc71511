import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { context, propagation, type Span, SpanKind, SpanStatusCode, trace, type Tracer } from '@opentelemetry/api';

interface ClientRequest {
  readonly origin: string | URL;
  readonly method: string;
  addHeader(name: string, value: string): void;
}
interface RequestMessage {
  readonly request: ClientRequest;
  readonly response?: { readonly statusCode: number };
  readonly error?: Error;
}

/**
 * Gives each request that undici sends within a span a span of its own and a `traceparent` header. The official
 * instrumentation isn't used, because it exports whole URLs: URLs of an identity provider contain e-mails, and the URL
 * of a webhook often contains a secret.
 */
export class ClientSpans {
  private readonly spans = new WeakMap<ClientRequest, Span>();
  private readonly listeners: readonly (readonly [string, (message: RequestMessage) => void])[] = [
    ['undici:request:create', ({ request }) => { this.begin(request); }],
    ['undici:request:headers', ({ request, response }) => {
      if (response) this.spans.get(request)?.setAttribute('http.response.status_code', response.statusCode);
      if (response && response.statusCode >= 400) this.spans.get(request)?.setStatus({ code: SpanStatusCode.ERROR });
    }],
    ['undici:request:trailers', ({ request }) => { this.spans.get(request)?.end(); }],
    ['undici:request:error', ({ request, error }) => {
      this.spans.get(request)?.setAttribute('error.type', error?.name ?? 'Error').setStatus({ code: SpanStatusCode.ERROR }).end();
    }],
  ];

  constructor(private readonly tracer: Tracer) {
    for (const [channel, listener] of this.listeners) subscribe(channel, listener as (message: unknown) => void);
  }

  stop(): void {
    for (const [channel, listener] of this.listeners) unsubscribe(channel, listener as (message: unknown) => void);
  }

  private begin(request: ClientRequest): void {
    if (!trace.getActiveSpan()) return;
    const { method } = request;
    const { hostname, port, protocol } = new URL(request.origin);
    const attributes = { 'http.request.method': method, 'server.address': hostname, 'server.port': Number(port) || (protocol === 'https:' ? 443 : 80) };
    const span = this.tracer.startSpan(method, { kind: SpanKind.CLIENT, attributes });
    this.spans.set(request, span);
    const headers: Record<string, string> = {};
    propagation.inject(trace.setSpan(context.active(), span), headers);
    for (const [name, value] of Object.entries(headers)) request.addHeader(name, value);
  }
}
