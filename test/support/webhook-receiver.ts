import { once } from 'node:events';
import { createServer, type IncomingMessage, type RequestListener, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { type CloudEvent, HTTP } from 'cloudevents';
import { Webhook } from 'standardwebhooks';
import type { UploadEvent } from '../../src/ingestion/application/ports/upload-events.port.js';

export interface TakenRequest {
  readonly body: string;
  readonly headers: IncomingMessage['headers'];
  readonly secret: Buffer;
}

/**
 * A webhook on the loopback interface. Checks the service's requests with the libraries of Standard Webhooks and
 * CloudEvents.
 */
export class WebhookReceiver {
  readonly taken: TakenRequest[] = [];
  readonly sockets = new Set<Socket>();
  connections = 0;
  private readonly server: Server;
  private readonly watchers = new Set<() => void>();

  private constructor(
    /** Answers each request. May leave the request's body unread. */
    public listener: RequestListener,
    public secret: Buffer,
  ) {
    this.server = createServer((request, response) => { this.listener(request, response); });
    this.server.on('connection', (socket: Socket) => {
      this.connections += 1;
      this.sockets.add(socket);
      socket.once('close', () => this.sockets.delete(socket)).on('error', () => undefined);
    });
  }

  static async answering(status = 200, answer = '', secret = SECRET): Promise<WebhookReceiver> {
    const receiver = await WebhookReceiver.doing((request, response) => { receiver.take(request, response, status, answer); }, secret);
    return receiver;
  }

  static async doing(listener: RequestListener, secret = SECRET): Promise<WebhookReceiver> {
    const receiver = new WebhookReceiver(listener, secret);
    await receiver.listen(0);
    return receiver;
  }

  get port(): number {
    return (this.server.address() as AddressInfo).port;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}/hook?key=secret`;
  }

  get variables(): Record<string, string> {
    return { EVENTS_WEBHOOK_URL: this.url, EVENTS_WEBHOOK_SECRET: secretText(this.secret) };
  }

  take(request: IncomingMessage, response: ServerResponse, status: number, answer = ''): void {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk)).on('end', () => {
      if (status >= 200 && status < 300) this.taken.push({ body: Buffer.concat(chunks).toString(), headers: request.headers, secret: this.secret });
      response.writeHead(status).end(answer);
      for (const notify of this.watchers) notify();
      this.watchers.clear();
    });
  }

  /** The events of all accepted requests. Throws if a request's signature or an event is invalid. */
  events(): UploadEvent[] {
    return this.taken.flatMap(({ body, headers, secret }) => {
      new Webhook(secretText(secret)).verify(body, headers as Record<string, string>);
      const batch = HTTP.toEvent<unknown>({ headers, body }) as CloudEvent<unknown>[];
      return batch.map((event) => (event.validate(), event.toJSON() as unknown as UploadEvent));
    });
  }

  async eventsUntil(isEnough: (events: readonly UploadEvent[]) => boolean): Promise<UploadEvent[]> {
    for (;;) {
      const events = this.events();
      if (isEnough(events)) return events;
      await new Promise<void>((resolve) => this.watchers.add(resolve));
    }
  }

  async close(): Promise<void> {
    this.server.closeAllConnections();
    if (this.server.listening) await new Promise((resolve) => this.server.close(resolve));
  }

  private async listen(port: number): Promise<void> {
    this.server.listen(port, '127.0.0.1');
    await once(this.server, 'listening');
  }
}

export const SECRET = Buffer.alloc(32, 1);

/** Encodes a webhook's secret in the form that Standard Webhooks prescribes. */
export const secretText = (secret: Buffer): string => `whsec_${secret.toString('base64')}`;
