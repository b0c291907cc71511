import type { IncomingMessage, RequestListener } from 'node:http';
import { Webhook, WebhookVerificationError } from 'standardwebhooks';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { SECRET, secretText as textOf, WebhookReceiver } from '../../../../../test/support/webhook-receiver.js';
import { anUploadDraft } from '../../../../testing/upload-draft.builder.js';
import { anUploadEvent, aRemovalEvent, someUploadEvents } from '../../../../testing/upload-events.builder.js';
import { uploadEventsContract } from '../../../../testing/upload-events.contract.js';
import { DeliveryError, type UploadEvent } from '../../../application/ports/upload-events.port.js';
import { WebhookUploadEvents } from './webhook.upload-events.adapter.js';

const OTHER_SECRET = Buffer.alloc(24, 2);
const TIMED_OUT = /didn't answer within 200 ms/;
const NEVER = new AbortController().signal;

const receivers: WebhookReceiver[] = [];
const adapters: WebhookUploadEvents[] = [];
afterEach(async () => {
  vi.unstubAllEnvs();
  for (const adapter of adapters.splice(0)) await adapter.onApplicationShutdown();
  for (const receiver of receivers.splice(0)) await receiver.close();
});

const taking = async (status?: number, answer?: string): Promise<WebhookReceiver> => kept(await WebhookReceiver.answering(status, answer));
const doing = async (listener: RequestListener): Promise<WebhookReceiver> => kept(await WebhookReceiver.doing(listener));

function kept(receiver: WebhookReceiver): WebhookReceiver {
  receivers.push(receiver);
  return receiver;
}

function adapterOf({ url }: { readonly url: string }, secrets: readonly Buffer[] = [SECRET], timeoutMs = 5_000): WebhookUploadEvents {
  const adapter = new WebhookUploadEvents({ url, secrets, timeoutMs });
  adapters.push(adapter);
  return adapter;
}

/** A time from now in the two obsolete forms of a date (RFC 9110, 5.6.7). */
function obsoleteDates(ms: number): { readonly rfc850: string; readonly asctime: string } {
  const date = new Date(Date.now() + ms);
  const [weekday = '', day = '', month = '', year = '', time = ''] = date.toUTCString().split(/,? /);
  const longWeekday = date.toLocaleDateString('en', { weekday: 'long', timeZone: 'UTC' });
  return { rfc850: `${longWeekday}, ${day}-${month}-${year.slice(2)} ${time} GMT`, asctime: `${weekday} ${month} ${day.replace(/^0/, ' ')} ${time} ${year}` };
}

uploadEventsContract('webhook', async () => {
  const receiver = await taking();
  const accept = receiver.listener;
  return {
    events: adapterOf(receiver),
    taken: () => Promise.resolve(receiver.events()),
    refuse: () => {
      receiver.listener = (request, response) => { receiver.take(request, response, 500); };
      return Promise.resolve();
    },
    accept: () => {
      receiver.listener = accept;
      return Promise.resolve();
    },
    tearDown: () => receiver.close(),
  };
});

describe('WebhookUploadEvents', () => {
  it('sends a batch of CloudEvents that both libraries accept', async () => {
    const receiver = await taking();
    const events = [await anUploadEvent(), aRemovalEvent()];
    await adapterOf(receiver).deliver(events, NEVER);
    expect(receiver.events()).toEqual(events);
    expect(receiver.taken[0]?.headers).toMatchObject({
      'content-type': 'application/cloudevents-batch+json',
      'webhook-id': expect.stringMatching(/^msg_[\w-]{32}$/) as string,
      'webhook-timestamp': expect.stringMatching(/^\d{10}$/) as string,
    });
    const { body = '', headers = {} } = receiver.taken[0] ?? {};
    expect(() => new Webhook(textOf(OTHER_SECRET)).verify(body, headers as Record<string, string>)).toThrow(WebhookVerificationError);
    expect(() => new Webhook(textOf(SECRET)).verify(`${body} `, headers as Record<string, string>)).toThrow(WebhookVerificationError);
  });

  it('signs with both secrets while one is being replaced', async () => {
    const receiver = await taking();
    await adapterOf(receiver, [OTHER_SECRET, SECRET]).deliver(await someUploadEvents(1), NEVER);
    const { body = '', headers = {} } = receiver.taken[0] ?? {};
    for (const secret of [SECRET, OTHER_SECRET]) new Webhook(textOf(secret)).verify(body, headers as Record<string, string>);
  });

  it('signs a body of several MiB', async () => {
    const receiver = await taking();
    const event = await anUploadEvent(anUploadDraft().with({ additionalData: 'é"🙂\n'.repeat(500_000) }));
    await adapterOf(receiver).deliver([event], NEVER);
    expect(receiver.events()).toEqual([event]);
  });

  it('sends long events among many short ones in their order', async () => {
    const receiver = await taking();
    const long = anUploadDraft().with({ additionalData: 'é"\n'.repeat(50_000) });
    const events = [...(await someUploadEvents(70)), await anUploadEvent(long), ...(await someUploadEvents(70)), await anUploadEvent(long)];
    await adapterOf(receiver).deliver(events, NEVER);
    expect(receiver.events()).toEqual(events);
  });

  it('gives a repeated batch the same webhook-id, and any other batch another one', async () => {
    const receiver = await taking();
    const events = await someUploadEvents(3);
    for (const batch of [events, events, events.slice(1), events.toReversed()]) await adapterOf(receiver).deliver(batch, NEVER);
    const ids = receiver.taken.map(({ headers }) => headers['webhook-id']);
    expect(ids[0]).toBe(ids[1]);
    expect(new Set(ids).size).toBe(3);
  });

  it('sends the user and password of its URL as HTTP Basic', async () => {
    const receiver = await taking();
    await adapterOf({ url: receiver.url.replace('127.0.0.1', 'us%40er:p%3Aw@127.0.0.1') }).deliver(await someUploadEvents(1), NEVER);
    expect(receiver.taken[0]?.headers.authorization).toBe(`Basic ${Buffer.from('us@er:p:w').toString('base64')}`);
  });

  it.each([200, 201, 202, 204, 299])('counts %i as delivered', async (status) => {
    const receiver = await taking(status);
    await adapterOf(receiver).deliver(await someUploadEvents(2), NEVER);
    expect(receiver.events()).toHaveLength(2);
  });

  it.each<[string, RequestListener]>([
    ['is huge', (request, response) => {
      request.resume();
      const more = (): void => { while (response.write(Buffer.alloc(65_536))); };
      response.on('drain', more).on('error', () => undefined);
      more();
    }],
    ['never ends', (request, response) => {
      request.resume().on('end', () => response.writeHead(200).write('first'));
    }],
    ['breaks off', (request, response) => {
      request.resume().on('end', () => {
        response.writeHead(200, { 'content-length': '100' }).write('first', () => response.destroy());
      });
    }],
  ])('counts 200 as delivered even if the body of the answer %s, and lets go of the connection', async (_, listener) => {
    const receiver = await doing(listener);
    await adapterOf(receiver, [SECRET], 1_000).deliver(await someUploadEvents(1), NEVER);
    await vi.waitUntil(() => receiver.sockets.size === 0);
  });

  it('counts 200 as delivered if the answer has long headers', async () => {
    const receiver = await doing((request, response) => {
      request.resume();
      response.writeHead(200, { 'x-long': 'x'.repeat(20_000) }).end();
    });
    await adapterOf(receiver).deliver(await someUploadEvents(1), NEVER);
  });

  const large = () => anUploadEvent(anUploadDraft().with({ additionalData: 'x'.repeat(20_000_000) }));
  const unread: IncomingMessage[] = [];
  it.each<[string, RequestListener, RegExp, (() => Promise<UploadEvent>)?]>([
    ['answers too late', (request, response) => {
      request.resume();
      setTimeout(() => response.writeHead(200).end(), 1_000).unref();
    }, TIMED_OUT],
    ['never answers', (request) => { request.resume(); }, TIMED_OUT],
    ['never reads', (request) => { unread.push(request); }, TIMED_OUT, large],
    ['closes the connection', (request) => { request.socket.destroy(); }, /can't be reached/],
    ['resets the connection', (request) => { request.socket.resetAndDestroy(); }, /can't be reached/],
    ['answers something else than HTTP', (request) => { request.socket.end('SMTP ready\r\n\r\n'); }, /answer can't be read/],
    ['answers 100 before 200', (request, response) => { request.resume(); response.writeContinue(); response.writeHead(200).end(); }, /answer can't be read/],
    ['answers 101', (request) => { request.socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n'); }, /answer can't be read/],
    ['answers with two lengths', (request) => { request.socket.write('HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n'); }, /answer can't be read/],
    ['answers with huge headers', (request, response) => { request.resume(); response.writeHead(200, { 'x-long': 'x'.repeat(70_000) }).end(); }, /answer can't be read/],
    ['answers 500', (request, response) => { request.resume(); response.writeHead(500).end('no'); }, /answered 500/],
    ['answers 400', (request, response) => { request.resume(); response.writeHead(400).end(); }, /answered 400/],
    ['answers 410', (request, response) => { request.resume(); response.writeHead(410).end(); }, /answered 410/],
  ])('rejects if the receiver %s, and lets go of the connection', async (_, listener, message, event = anUploadEvent) => {
    const receiver = await doing(listener);
    const delivery = adapterOf(receiver, [SECRET], message === TIMED_OUT ? 200 : 5_000).deliver([await event()], NEVER);
    const error = await delivery.catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(DeliveryError);
    expect((error as DeliveryError).message).toMatch(message);
    expect((error as DeliveryError).retryAfterSeconds).toBeUndefined();
    // A receiver that doesn't read a request doesn't notice that the adapter has closed the connection. So the requests
    // that the receiver left unread are read now.
    for (const request of unread.splice(0)) request.resume();
    await vi.waitUntil(() => receiver.sockets.size === 0, { timeout: 5_000 });
  });

  it('waits 15 seconds for an answer by default', async () => {
    // undici keeps the timer of its first request for ever, so that one must be real.
    await adapterOf(await taking()).deliver(await someUploadEvents(1), NEVER);
    let arrived = (): void => undefined;
    const arrival = new Promise<void>((resolve) => (arrived = resolve));
    const { url } = await doing((request) => { request.resume().once('end', arrived); });
    const adapter = new WebhookUploadEvents({ url, secrets: [SECRET] });
    adapters.push(adapter);
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    try {
      let error: unknown;
      const delivery = adapter.deliver(await someUploadEvents(1), NEVER).catch((reason: unknown) => { error = reason; });
      await arrival;
      await vi.advanceTimersByTimeAsync(14_999);
      await new Promise(setImmediate);
      expect(error).toBeUndefined();
      await vi.advanceTimersByTimeAsync(1);
      await delivery;
      expect(error).toBeInstanceOf(DeliveryError);
      expect((error as DeliveryError).message).toBe("The webhook didn't answer within 15000 ms.");
    } finally {
      vi.useRealTimers();
    }
  });

  it('rejects if nothing listens, and shows neither path nor query of the URL', async () => {
    const receiver = await taking();
    const adapter = adapterOf(receiver);
    await receiver.close();
    const error = await adapter.deliver(await someUploadEvents(1), NEVER).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(DeliveryError);
    expect(JSON.stringify([String(error), String((error as Error).cause)])).not.toMatch(/\/hook|key=/);
  });

  it.each([301, 302, 303, 307, 308])('follows no redirect with %i', async (status) => {
    const target = await taking();
    const receiver = await doing((request, response) => {
      request.resume();
      response.writeHead(status, { location: target.url }).end();
    });
    await expect(adapterOf(receiver).deliver(await someUploadEvents(1), NEVER)).rejects.toThrow(`answered ${status}`);
    expect(target.taken).toEqual([]);
  });

  it.each<[number, string, number | undefined, number | undefined]>([
    [429, '7', 7, 7],
    [503, '0', 0, 0],
    [503, new Date(Date.now() + 100_000).toUTCString(), 60, 100],
    [429, new Date(Date.now() - 100_000).toUTCString(), 0, 0],
    [503, obsoleteDates(100_000).rfc850, 60, 100],
    [503, obsoleteDates(-100_000).rfc850, 0, 0],
    [503, obsoleteDates(100_000).asctime, 60, 100],
    [503, obsoleteDates(-100_000).asctime, 0, 0],
    [429, 'soon', undefined, undefined],
    [429, '2.5', undefined, undefined],
    [429, 'Soon 5', undefined, undefined],
    [500, '7', undefined, undefined],
  ])('reads Retry-After of %i: %s', async (status, value, least, most) => {
    vi.stubEnv('TZ', 'America/New_York');
    const receiver = await doing((request, response) => {
      request.resume();
      response.writeHead(status, { 'retry-after': value }).end();
    });
    const error = (await adapterOf(receiver).deliver(await someUploadEvents(1), NEVER).catch((reason: unknown) => reason)) as DeliveryError;
    expect(error.message).toContain(`answered ${status}`);
    const seconds = error.retryAfterSeconds;
    expect(seconds === undefined).toBe(least === undefined);
    expect(seconds ?? 0).toBeGreaterThanOrEqual(least ?? 0);
    expect(seconds ?? 0).toBeLessThanOrEqual(most ?? 0);
  });

  it('ends a delivery in progress when its signal aborts', async () => {
    const end = new AbortController();
    const receiver = await doing((request) => {
      request.resume();
      end.abort(new Error('the service stops'));
    });
    await expect(adapterOf(receiver).deliver(await someUploadEvents(1), end.signal)).rejects.toThrow('the service stops');
    await vi.waitUntil(() => receiver.sockets.size === 0);
  });

  it('uses a connection for several deliveries', async () => {
    const receiver = await taking(200, 'thank you');
    const adapter = adapterOf(receiver);
    for (let count = 0; count < 5; count++) await adapter.deliver(await someUploadEvents(1), NEVER);
    expect(receiver.events()).toHaveLength(5);
    expect(receiver.connections).toBe(1);
  });
});
