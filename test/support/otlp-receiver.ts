import { once } from 'node:events';
import { createServer, type IncomingMessage, type RequestListener } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { json } from 'node:stream/consumers';
import type { TlsOptions } from 'node:tls';

interface KeyValue {
  readonly key: string;
  readonly value: { readonly stringValue?: string; readonly intValue?: number | string; readonly arrayValue?: { readonly values: readonly { readonly stringValue?: string }[] } };
}
interface WireSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly name: string;
  readonly kind: number;
  readonly attributes: readonly KeyValue[];
  readonly status: { readonly code?: number };
}
interface ExportTraceRequest {
  readonly resourceSpans: readonly { readonly resource: { readonly attributes: readonly KeyValue[] }; readonly scopeSpans: readonly { readonly spans: readonly WireSpan[] }[] }[];
}

const KINDS = ['unspecified', 'internal', 'server', 'client'];
const ERROR_CODE = 2;

export interface ReceivedSpan {
  readonly traceId: string;
  readonly spanId: string;
  /** The id of the parent span. Undefined for the first span of a trace. */
  readonly parentSpanId: string | undefined;
  readonly name: string;
  readonly kind: string | undefined;
  readonly hasFailed: boolean;
  readonly attributes: Readonly<Record<string, unknown>>;
  readonly resource: Readonly<Record<string, unknown>>;
}

/** Receives traces by OTLP/HTTP in its JSON form, on the loopback interface. */
export class OtlpReceiver {
  readonly spans: ReceivedSpan[] = [];
  headers: IncomingMessage['headers'] = {};
  private readonly server;
  private readonly watchers = new Set<() => void>();

  private constructor(private readonly tls?: TlsOptions) {
    const receive: RequestListener = (request, response) => {
      void json(request).then((body) => {
        const isExpected = request.method === 'POST' && request.url === '/v1/traces' && request.headers['content-type'] === 'application/json';
        response.writeHead(isExpected ? 200 : 404, { 'content-type': 'application/json' }).end('{}');
        if (isExpected) this.take(request, body as ExportTraceRequest);
      });
    };
    this.server = tls ? createTlsServer(tls, receive) : createServer(receive);
  }

  /** @param tls certificate and key for HTTPS. Default: HTTP. */
  static async start(tls?: TlsOptions): Promise<OtlpReceiver> {
    const receiver = new OtlpReceiver(tls);
    receiver.server.listen(0, '127.0.0.1');
    await once(receiver.server, 'listening');
    return receiver;
  }

  get variables(): Record<string, string> {
    const { port } = this.server.address() as AddressInfo;
    return { OTEL_EXPORTER_OTLP_ENDPOINT: `${this.tls ? 'https' : 'http'}://127.0.0.1:${port}`, OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json', OTEL_BSP_SCHEDULE_DELAY: '20' };
  }

  async span(name: string, isMeant: (span: ReceivedSpan) => boolean = () => true): Promise<ReceivedSpan> {
    for (;;) {
      const found = this.spans.find((span) => span.name === name && isMeant(span));
      if (found) return found;
      await new Promise<void>((resolve) => this.watchers.add(resolve));
    }
  }

  /** The names of the spans below a span at any depth, each with the spans between them: `a > b`. */
  below({ spanId, traceId }: ReceivedSpan): string[] {
    const children = this.spans.filter((span) => span.traceId === traceId && span.parentSpanId === spanId);
    return children.flatMap((span) => [span.name, ...this.below(span).map((name) => `${span.name} > ${name}`)]);
  }

  async stop(): Promise<void> {
    this.server.closeAllConnections();
    await new Promise((resolve) => this.server.close(resolve));
  }

  private take({ headers }: IncomingMessage, { resourceSpans }: ExportTraceRequest): void {
    this.headers = headers;
    for (const { resource, scopeSpans } of resourceSpans) {
      for (const { traceId, spanId, parentSpanId, name, kind, attributes, status } of scopeSpans.flatMap(({ spans }) => spans)) {
        this.spans.push({ traceId, spanId, parentSpanId: parentSpanId === '' ? undefined : parentSpanId, name, kind: KINDS[kind], hasFailed: status.code === ERROR_CODE, attributes: valuesOf(attributes), resource: valuesOf(resource.attributes) });
      }
    }
    for (const notify of this.watchers) notify();
    this.watchers.clear();
  }
}

const valuesOf = (attributes: readonly KeyValue[]): Record<string, unknown> =>
  Object.fromEntries(attributes.map(({ key, value }) => [key, value.stringValue ?? value.arrayValue?.values.map(({ stringValue }) => stringValue) ?? Number(value.intValue)]));
