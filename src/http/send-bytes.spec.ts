import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { Readable } from 'node:stream';
import { setImmediate as nextIteration } from 'node:timers/promises';
import { Logger } from '@nestjs/common';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { CollectingLogger } from '../../test/support/collecting-logger.js';
import { answerMemory } from '../common/memory-budget.js';
import { MIB } from '../common/sizes.js';
import { beginExchange, drainBeforeEnd } from './exchange.js';
import { sendBytes, sendJsonBytes } from './send-bytes.js';

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

  it('breaks the connection if there are fewer bytes, also while the client still sends a body', async () => {
    chunks = ['abc', 'de'];
    server.prependListener('request', (request: IncomingMessage, response: ServerResponse) => { drainBeforeEnd(beginExchange(request, response, false)); });
    const socket = connect((server.address() as AddressInfo).port, '127.0.0.1').resume();
    socket.write('GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nbegin');
    const [text] = (await once(socket, 'data')) as [Buffer];
    socket.write('-ends');
    await once(socket, 'close');
    expect(String(text)).toMatch(/abcde$/);
    expect(log.entries).toMatchObject([{ level: 'error', text: expect.stringContaining('An answer broke off.') as string }]);
  });
});

describe('sendJsonBytes', () => {
  const IDLE_MS = 600_000;
  const WITHIN = { timeout: 10_000 };
  const BYTES_PER_SECOND = 512 * 1024;
  const JSON_BYTES = 32 * MIB;
  let server: Server;
  let client: Socket;
  let response: ServerResponse;
  let ended: Promise<unknown>;

  /** A client asks for long JSON, and reads nothing of it. */
  beforeEach(async () => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] });
    server = createServer();
    await once(server.listen(0, '127.0.0.1'), 'listening');
    client = connect((server.address() as AddressInfo).port, '127.0.0.1');
    client.on('error', () => undefined).write('GET / HTTP/1.1\r\nHost: x\r\n\r\n');
    const [request, answered] = (await once(server, 'request')) as Parameters<typeof sendBytes>;
    response = answered;
    ended = sendJsonBytes(request, response, Buffer.alloc(JSON_BYTES, ' '), IDLE_MS);
    await vi.waitUntil(() => response.writableNeedDrain, WITHIN);
  });
  afterEach(() => {
    vi.useRealTimers();
    client.destroy();
    server.closeAllConnections();
    server.close();
  });

  async function whileAnotherAnswerWaits(work: () => Promise<unknown>): Promise<void> {
    const [holder, waiting] = [answerMemory.hold('answer'), answerMemory.hold('answer')];
    try {
      await holder.take(answerMemory.bytes + 1);
      const granted = waiting.take(1);
      await work();
      waiting.release();
      await granted;
    } finally {
      holder.release();
    }
  }

  it('breaks the connection of a client that reads nothing while another answer waits for memory', async () => {
    await whileAnotherAnswerWaits(() => {
      vi.advanceTimersByTime(40_000);
      return ended;
    });
  });

  it('breaks the connection of a client that takes a piece every 29 seconds while another answer waits for memory', async () => {
    let pieces = 0;
    let take = (): void => undefined;
    vi.spyOn(response, 'write').mockImplementation((...[, taken]: unknown[]) => {
      pieces += 1;
      take = taken as () => void;
      return true;
    });
    client.resume();
    let isOver = false;
    void ended.then(() => { isOver = true; });
    await vi.waitUntil(() => pieces > 0, WITHIN);
    await whileAnotherAnswerWaits(async () => {
      for (let taken = 1; !isOver; taken++) {
        vi.advanceTimersByTime(29_000);
        take();
        await vi.waitUntil(() => isOver || pieces > taken, { ...WITHIN, interval: 1 });
      }
    });
    expect(pieces).toBeLessThan(10);
  });

  it('keeps the connection of a client that reads slowly', async () => {
    await whileAnotherAnswerWaits(async () => {
      for (let received = 0; received < JSON_BYTES; ) {
        await nextIteration();
        const chunk = client.read() as Buffer | null;
        if (!chunk) await once(client, 'readable');
        received += chunk?.length ?? 0;
        vi.advanceTimersByTime(((chunk?.length ?? 0) * 1_000) / BYTES_PER_SECOND);
      }
    });
  });

  it('keeps the connection of a client that reads nothing for a minute while none waits', async () => {
    vi.advanceTimersByTime(60_000);
    let received = 0;
    client.on('data', ({ length }) => (received += length));
    await ended;
    await vi.waitUntil(() => received > JSON_BYTES, WITHIN);
    expect(vi.getTimerCount()).toBe(0);
  });
});
