import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import type { RunningService } from './service.js';

/** Sends a GET request with the administrator's token, and doesn't read the answer. */
export async function askUnread({ port, adminToken }: Pick<RunningService, 'port' | 'adminToken'>, target: string, requestId: string = randomUUID()): Promise<Socket> {
  const token = await adminToken();
  const client = connect(port, '127.0.0.1').on('error', () => undefined).pause();
  client.write(`GET ${target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX-Request-Id: ${requestId}\r\nAuthorization: Bearer ${token}\r\n\r\n`);
  return client;
}

export async function lengthOfRest(client: Socket): Promise<number> {
  let bytes = 0;
  client.on('data', (chunk) => (bytes += chunk.length));
  await once(client.resume(), 'close');
  return bytes;
}
