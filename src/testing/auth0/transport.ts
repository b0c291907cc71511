import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Auth0Answer, Auth0Request } from './auth0-api.js';

/** Reads a whole HTTP request. Resolves to undefined if the client disconnects before the request's end. */
export async function readRequest(incoming: IncomingMessage): Promise<Auth0Request | undefined> {
  const chunks: Buffer[] = [];
  try {
    for await (const chunk of incoming) chunks.push(chunk as Buffer);
  } catch {
    return undefined;
  }
  const [path = '/', search = ''] = (incoming.url ?? '/').split('?', 2);
  const { method = 'GET', headers } = incoming;
  const body = parseBody(Buffer.concat(chunks).toString(), headers['content-type'] ?? '');
  return { method, path, query: new URLSearchParams(search), headers, ...body };
}

function parseBody(text: string, contentType: string): { body: unknown; isMalformed: boolean } {
  if (text === '') return { body: undefined, isMalformed: false };
  if (contentType.startsWith('application/x-www-form-urlencoded')) {
    return { body: Object.fromEntries(new URLSearchParams(text)), isMalformed: false };
  }
  try {
    return { body: JSON.parse(text), isMalformed: !contentType.startsWith('application/json') };
  } catch {
    return { body: undefined, isMalformed: true };
  }
}

/** @param share the share of the body to send, from 0 to 1. The Content-Length is that of the part that is sent. */
export function send(response: ServerResponse, { status, headers, body }: Auth0Answer, share = 1): void {
  const bytes = encode(body);
  const type = body === undefined ? {} : { 'content-type': typeof body === 'object' ? 'application/json; charset=utf-8' : 'text/html' };
  const kept = bytes.subarray(0, Math.ceil(bytes.length * share));
  response.writeHead(status, { ...type, ...(status !== 204 && { 'content-length': kept.length }), ...headers }).end(kept);
}

/** Sends half of the answer's body, and then closes the connection. The Content-Length announces more bytes. */
export function cut(response: ServerResponse, { status, headers, body }: Auth0Answer): void {
  const bytes = encode(body);
  response.writeHead(status, { 'content-type': 'application/json', 'content-length': bytes.length + 1, ...headers });
  response.write(bytes.subarray(0, Math.ceil(bytes.length / 2)), () => response.destroy());
}

const encode = (body: unknown): Buffer => {
  if (body === undefined || Buffer.isBuffer(body)) return body ?? Buffer.alloc(0);
  return Buffer.from(typeof body === 'string' ? body : JSON.stringify(body));
};

export const reset = (response: ServerResponse): void => {
  response.socket?.resetAndDestroy();
};
