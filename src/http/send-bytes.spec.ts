import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Readable } from 'node:stream';
import { Logger } from '@nestjs/common';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { CollectingLogger } from '../../test/support/collecting-logger.js';
import { sendBytes } from './send-bytes.js';

describe('sendBytes', () => {
  let server: Server;
  let chunks: string[];
  let log: CollectingLogger;
  beforeEach(async () => {
    log = new CollectingLogger();
    Logger.overrideLogger(log);
    server = createServer((request, response) => {
      response.setHeader('Content-Length', 6);
      void sendBytes(request, response, Readable.from(chunks.map((chunk) => Buffer.from(chunk))), 60_000);
    });
    await once(server.listen(0, '127.0.0.1'), 'listening');
  });
  afterEach(() => {
    Logger.overrideLogger(false);
    server.closeAllConnections();
    server.close();
  });

  const body = async () => (await fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`)).text();

  it('sends as many bytes as Content-Length says', async () => {
    chunks = ['abc', 'def'];
    await expect(body()).resolves.toBe('abcdef');
  });

  it.each([
    ['fewer', ['abc', 'de']],
    ['more', ['abc', 'defg']],
    ['more in its first chunk', ['abcdefg']],
    ['more in a chunk of their own', ['abcdef', 'g']],
    ['no', []],
  ])('breaks the connection if there are %s bytes', async (_, given) => {
    chunks = given;
    const broken = new Promise((resolve) => server.once('connection', (socket) => socket.once('close', resolve)));
    await body().catch(() => undefined);
    await broken;
    expect(log.entries).toHaveLength(1);
  });
});
