import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createApp } from '../../src/app/index.js';
import { InMemoryUploadEvents } from '../../src/testing/index.js';
import { type RunningService, startService } from '../support/service.js';
import { writeSigningKeys } from '../support/signing-keys.js';
import { SECRET, secretText, WebhookReceiver } from '../support/webhook-receiver.js';

let data: string;
let receiver: WebhookReceiver;
let service: RunningService | undefined;
beforeEach(async () => {
  data = await mkdtemp(join(tmpdir(), 'load-data-'));
  await writeSigningKeys(data);
  receiver = await WebhookReceiver.answering(204);
});
afterEach(async () => {
  await service?.close();
  service = undefined;
  await receiver.close();
  await rm(data, { recursive: true });
});

async function start(variables: Record<string, string> = receiver.variables): Promise<RunningService> {
  return (service = await startService({ DATA_DIR: data, ...variables }));
}

async function restart(variables?: Record<string, string>): Promise<RunningService> {
  await service?.close();
  return start(variables);
}

async function upload(url = service?.url ?? '', filename = 'a.csv'): Promise<string> {
  const query = new URLSearchParams({ customer_id: 'acme', filename, manufacturer: 'meters' });
  const answer = await fetch(`${url}/ingestNowcastLoadData/upload_nowcast?${query.toString()}`, { method: 'POST', headers: { 'Content-Type': 'text/csv' }, body: 'at,kwh' });
  expect(answer.status).toBe(200);
  return answer.headers.get('x-upload-id') ?? '';
}

const deliveredIds = async (count: number): Promise<string[]> => (await receiver.eventsUntil((events) => events.length >= count)).map(({ id }) => id);

const metric = async (name: string): Promise<number> => {
  const text = await (await fetch(`${service?.url}/metrics`)).text();
  const line = text.split('\n').find((each) => each.startsWith(`${name} `));
  return Number(line?.slice(name.length + 1) ?? 'NaN');
};

describe('the service with a webhook', () => {
  it('delivers a signed event for an upload, and another for its removal', async () => {
    const { url } = await start();
    const authorized = async () => ({ headers: { Authorization: `Bearer ${(await service?.adminToken()) ?? ''}` } });
    const id = await upload();
    const described: unknown = await (await fetch(`${url}/uploads/${id}`, await authorized())).json();
    const [stored] = await receiver.eventsUntil((events) => events.length > 0);
    expect(stored).toEqual({
      specversion: '1.0',
      type: 'load-data.upload.stored.v1',
      id,
      source: url,
      subject: 'acme',
      time: (described as { received_at: string }).received_at,
      datacontenttype: 'application/json',
      data: described,
    });

    await fetch(`${url}/uploads/${id}`, { method: 'DELETE', ...(await authorized()) });
    const [, removed] = await receiver.eventsUntil((events) => events.length > 1);
    expect(removed).toMatchObject({ type: 'load-data.upload.removed.v1', id: `${id}-removed`, subject: 'acme', data: { upload_id: id, kind: 'nowcast', customer_id: 'acme' } });
    for (const type of ['stored', 'removed']) await expect.poll(() => metric(`load_data_events_delivered_total{type="${type}"}`)).toBe(1);
  });

  it('names the base URL that clients see as the source, also behind a proxy', async () => {
    const { port } = await start({ ...receiver.variables, BASE_PATH: '/v1', PUBLIC_URL: 'https://grid.example/api/v1' });
    await upload(`http://127.0.0.1:${port}/v1`);
    expect(await receiver.eventsUntil((events) => events.length > 0)).toMatchObject([{ source: 'https://grid.example/api/v1' }]);
  });

  it('begins with what is uploaded after the first start with a webhook, and then leaves nothing out', async () => {
    await start({});
    await upload();
    await restart();
    const first = await upload();
    expect(await deliveredIds(1)).toEqual([first]);
    await restart({});
    const whileOff = await upload();
    await restart();
    const last = await upload();
    expect(await deliveredIds(3)).toEqual([first, whileOff, last]);
  });

  it('warns at the start without a receiver that events are recorded, once a receiver was set', async () => {
    const warnings = () => service?.log.entries.map(({ text }) => text).filter((text) => text.startsWith('Events are recorded but not delivered'));
    const { log } = await start({});
    await upload();
    await restart();
    expect([...log.entries.map(({ text }) => text), ...(service?.log.entries.map(({ text }) => text) ?? [])].filter((text) => text.includes('not delivered'))).toEqual([]);
    await restart({});
    await expect.poll(warnings).toEqual([expect.stringContaining('Set EVENTS_WEBHOOK_URL, or stop the service and remove events/')]);
  });

  it('delivers everything while the secret is replaced, in requests that are valid for the one secret that the receiver knows', async () => {
    const [old, other] = [secretText(SECRET), Buffer.alloc(32, 2)];
    const signedWith = (...secrets: string[]) => ({ ...receiver.variables, EVENTS_WEBHOOK_SECRET: secrets.join(' ') });
    await start();
    const ids = [await upload()];
    await deliveredIds(1);
    await restart(signedWith(secretText(other), old));
    ids.push(await upload());
    await deliveredIds(2);
    receiver.secret = other;
    ids.push(await upload());
    await deliveredIds(3);
    await restart(signedWith(secretText(other)));
    ids.push(await upload());
    expect(await deliveredIds(4)).toEqual(ids);
  });

  it('answers uploads and is ready while the receiver is down, and shows that in the log and the metrics', async () => {
    const accept = receiver.listener;
    receiver.listener = (request) => { request.socket.destroy(); };
    const { url, log } = await start();
    expect([await metric('load_data_events_lag_seconds'), await metric('load_data_event_deliveries_total{outcome="failed"}')]).toEqual([0, 0]);
    const ids = [await upload()];
    while ((await metric('load_data_event_deliveries_total{outcome="failed"}')) === 0);
    ids.push(await upload());
    expect((await fetch(`${url}/health/ready`)).status).toBe(200);
    expect(await metric('load_data_events_lag_seconds')).toBeGreaterThan(0);

    receiver.listener = accept;
    expect(await deliveredIds(2)).toEqual(ids);
    while ((await metric('load_data_events_lag_seconds')) > 0);
    expect(await metric('load_data_event_deliveries_total{outcome="ok"}')).toBeGreaterThan(0);
    expect(await metric('load_data_events_delivered_total{type="stored"}')).toBe(2);
    const lines = log.entries.map(({ text }) => text).filter((text) => /events/i.test(text));
    expect(lines).toHaveLength(2);
    expect(lines[0]).toMatch(/^Delivering events failed; retrying until it succeeds\./);
    expect(log.text).not.toMatch(/hook\?|key=secret|whsec_/);
    expect(log.text).not.toContain(SECRET.toString('base64'));
  });

  it('delivers to an in-memory receiver of a team in place of the webhook', async () => {
    const events = new InMemoryUploadEvents();
    const app = await createApp({ environment: { DATA_DIR: data, LOG_LEVEL: 'silent', EVENTS_WEBHOOK_URL: 'wrong', EVENTS_WEBHOOK_SECRET_FILE: join(data, 'missing') }, events });
    try {
      await app.listen(0, '127.0.0.1');
      const id = await upload(await app.getUrl());
      expect((await events.atLeast(1)).map((event) => event.id)).toEqual([id]);
    } finally {
      await app.close();
    }
    expect(receiver.taken).toEqual([]);
  });

  it('refuses a webhook without a secret, and shows neither', async () => {
    await expect(start({ EVENTS_WEBHOOK_URL: receiver.url })).rejects.toThrow('EVENTS_WEBHOOK_SECRET: must be set');
    await expect(start({ EVENTS_WEBHOOK_URL: receiver.url, EVENTS_WEBHOOK_SECRET: secretText(Buffer.alloc(3)) })).rejects.not.toThrow('AAAA');
  });
});
