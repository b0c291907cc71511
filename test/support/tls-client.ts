import type { EventEmitter } from 'node:events';
import http2 from 'node:http2';
import https from 'node:https';
import type { Readable, Writable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { connect, type ConnectionOptions } from 'node:tls';

export const PROTOCOLS = ['HTTP/1.1', 'HTTP/2'] as const;
export type Protocol = (typeof PROTOCOLS)[number];
export type Headers = Readonly<Record<string, string | string[] | undefined>>;

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: string;
}

export interface BegunRequest {
  readonly body: Writable;
  readonly isContinued: () => boolean;
  readonly continued: Promise<void>;
  readonly answer: Promise<Answer>;
}

export interface RequestOptions {
  readonly method?: string;
  readonly headers?: Record<string, string | number>;
}

export interface Connection {
  begin(path: string, options?: RequestOptions): BegunRequest;
  request(path: string, options?: RequestOptions & { readonly body?: string | Buffer }): Promise<Answer>;
  /** Requests a path, and resolves to the body once the head has arrived. Rejects if the status isn't 200. */
  read(path: string, headers: Record<string, string>): Promise<Readable>;
  close(): void;
}

export interface Target {
  readonly port: number;
  readonly certificate: string;
}

export function tlsConnection(protocol: Protocol, { port, certificate: ca }: Target, localAddress = '127.0.0.1'): Connection {
  const { begin, read, close } = protocol === 'HTTP/2' ? overHttp2(port, ca, localAddress) : overHttp1(port, ca, localAddress);
  return {
    begin,
    read,
    close,
    request: async (path, { body, ...options } = {}) => {
      const { answer, body: writable } = begin(path, options);
      writable.on('error', () => undefined).end(body);
      return answer;
    },
  };
}

function overHttp1(port: number, ca: string, localAddress: string): Omit<Connection, 'request'> {
  const agent = new https.Agent({ keepAlive: true, maxSockets: 1 });
  const begin: Connection['begin'] = (path, { method = 'POST', headers } = {}) => {
    const request = https.request({ host: '127.0.0.1', port, ca, localAddress, agent, method, path, headers });
    const continuing = continuation(request);
    request.flushHeaders();
    const answer = new Promise<Answer>((resolve, reject) => {
      request.once('error', reject).once('response', (response) => {
        collect(response, (body) => { resolve({ status: response.statusCode ?? 0, headers: response.headers, body }); });
        response.once('close', () => { reject(new Error('The answer broke off.')); });
      });
    });
    return handled({ body: request, ...continuing, answer });
  };
  const read: Connection['read'] = (path, headers) =>
    new Promise((resolve, reject) => {
      const request = https.get({ host: '127.0.0.1', port, ca, localAddress, agent, path, headers });
      request.once('error', reject).once('response', (response) => { bodyOf(response, response.statusCode).then(resolve, reject); });
    });
  return { begin, read, close: () => { agent.destroy(); } };
}

function overHttp2(port: number, ca: string, localAddress: string): Omit<Connection, 'request'> {
  const createConnection = () => connect({ host: '127.0.0.1', port, ca, ALPNProtocols: ['h2'], localAddress } as ConnectionOptions);
  const open = () => http2.connect(`https://127.0.0.1:${port}`, { createConnection }).on('error', () => undefined);
  let session = open();
  const begin: Connection['begin'] = (path, { method = 'POST', headers } = {}) => {
    // A new connection is opened if needed, because a proxy ends a connection after some number of requests.
    if (session.closed || session.destroyed) session = open();
    const stream = session.request({ ':method': method, ':path': path, ...headers }, { endStream: method === 'GET' || method === 'DELETE' });
    const continuing = continuation(stream);
    const answer = new Promise<Answer>((resolve, reject) => {
      stream.once('error', reject).once('close', () => { reject(new Error('The stream was closed without an answer.')); });
      stream.once('response', (found) => {
        collect(stream, (body) => { resolve({ status: found[':status'] ?? 0, headers: found, body }); });
      });
    });
    return handled({ body: stream, ...continuing, answer });
  };
  const read: Connection['read'] = (path, headers) =>
    new Promise((resolve, reject) => {
      const stream = session.request({ ':path': path, ...headers });
      stream.once('error', reject).once('response', ({ ':status': status }) => { bodyOf(stream, status).then(resolve, reject); });
    });
  return { begin, read, close: () => { session.destroy(); } };
}

function continuation(request: EventEmitter): Pick<BegunRequest, 'isContinued' | 'continued'> {
  let isContinued = false;
  const continued = new Promise<void>((resolve) => {
    request.once('continue', () => {
      isContinued = true;
      resolve();
    });
  });
  return { isContinued: () => isContinued, continued };
}

/** Handles the errors of a request, so that a failed one that nobody awaits doesn't end the process. */
function handled(begun: BegunRequest): BegunRequest {
  begun.body.on('error', () => undefined);
  begun.answer.catch(() => undefined);
  return begun;
}

async function bodyOf(body: Readable, status?: number): Promise<Readable> {
  if (status === 200) return body;
  throw new Error(`${status ?? ''} ${await text(body)}`);
}

function collect(stream: Readable, done: (text: string) => void): void {
  let text = '';
  stream.setEncoding('utf8').on('data', (chunk: string) => (text += chunk)).once('end', () => { done(text); });
}
