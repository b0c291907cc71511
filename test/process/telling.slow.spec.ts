import { readFile } from 'node:fs/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { DataDirectoryView } from '../../src/testing/data-directory.view.js';
import { toIndexLines } from '../../src/testing/index-lines.js';
import { Load } from '../support/load.js';
import { type ServiceProcess, Workspace } from '../support/process.js';
import { SlowUpload } from '../support/slow-upload.js';
import { WebhookReceiver } from '../support/webhook-receiver.js';

const MOST_EVENTS = 500;

let workspace: Workspace;
let receiver: WebhookReceiver;
beforeEach(async () => {
  workspace = await Workspace.create();
  receiver = await WebhookReceiver.answering();
});
afterEach(async () => {
  await workspace.dispose();
  await receiver.close();
});

const start = (variables = {}): Promise<ServiceProcess> => workspace.start({ ...receiver.variables, LOG_LEVEL: 'warn', ...variables });

/**
 * Starts the service, uploads until `count` uploads are acknowledged, and ends the service with the signal. Resolves to
 * the ids of the acknowledged uploads.
 */
async function uploadUntil(signal: 'SIGKILL' | 'SIGTERM', count: number): Promise<string[]> {
  const { program, origin } = await start();
  const load = new Load(origin);
  await load.reached(count);
  await program.end(signal);
  await load.ended();
  expect(program.lines.filter((line) => line.includes('"level":50'))).toEqual([]);
  return load.acknowledged.map(({ uploadId }) => uploadId);
}

/**
 * The ids of the events that the webhook received, each once, in the order of their first arrival. An event's id is its
 * upload's id.
 */
const deliveredIds = (): string[] => [...new Set(receiver.events().map(({ id }) => id))];

async function expectOrderOfLines(): Promise<void> {
  const view = new DataDirectoryView(workspace.data);
  const order = new Map(deliveredIds().map((id, index) => [id, index]));
  for (const path of await view.files('uploads')) {
    const positions = toIndexLines([await readFile(view.at(path), 'utf8')]).map(({ upload_id: id }) => order.get(id) ?? -1);
    expect(positions).toEqual([...positions].sort((one, other) => one - other));
    expect(positions).not.toContain(-1);
  }
}

async function uploadTo({ origin }: ServiceProcess): Promise<string> {
  const response = await fetch(`${origin}/ingestNowcastLoadData/upload_nowcast?customer_id=c&filename=f&manufacturer=m`, { method: 'POST' });
  expect(response.status).toBe(200);
  return response.headers.get('X-Upload-Id') ?? '';
}

describe('delivery to a webhook', () => {
  it('delivers every acknowledged upload in spite of three kill -9, and again only what was in flight', async () => {
    const kills = 3;
    const acknowledged: string[] = [];
    for (let kill = 1; kill <= kills; kill++) acknowledged.push(...(await uploadUntil('SIGKILL', 150)));
    await start();
    // Events are also required for uploads that were stored but not acknowledged, because the kill came before the
    // answer.
    const stored = (await new DataDirectoryView(workspace.data).lines()).map((line) => line.upload_id);
    expect(stored).toEqual(expect.arrayContaining(acknowledged));
    await receiver.eventsUntil((events) => {
      const ids = new Set(events.map(({ id }) => id));
      return stored.every((id) => ids.has(id));
    });
    const { length } = receiver.events();
    expect(length - deliveredIds().length).toBeLessThanOrEqual(kills * MOST_EVENTS);
    await expectOrderOfLines();
  });

  it('delivers nothing twice across restarts', async () => {
    const acknowledged: string[] = [];
    for (let restart = 1; restart <= 2; restart++) acknowledged.push(...(await uploadUntil('SIGTERM', 60)));
    await start();
    const events = await receiver.eventsUntil(({ length }) => length >= acknowledged.length);
    expect(events.map(({ id }) => id).sort()).toEqual([...acknowledged].sort());
    await expectOrderOfLines();
  });

  it('waits for a receiver that takes three seconds when it stops, and delivers nothing twice', async () => {
    const asked = new Promise<void>((resolve) => {
      receiver.listener = (request, response) => {
        resolve();
        setTimeout(() => { receiver.take(request, response, 200); }, 3_000);
      };
    });
    const first = await start();
    const uploads = [await uploadTo(first)];
    await asked;
    expect(await first.program.end('SIGTERM')).toMatchObject({ code: 0 });
    uploads.push(await uploadTo(await start()));
    expect((await receiver.eventsUntil(({ length }) => length >= 2)).map(({ id }) => id)).toEqual(uploads);
  });

  it('goes on delivering after SIGTERM while an upload is in flight', async () => {
    const { program, port } = await start({ LOG_LEVEL: 'info' });
    const [first, second] = [await SlowUpload.begin(port), await SlowUpload.begin(port)];
    const ended = program.end('SIGTERM');
    await program.line(/"msg":"stopping"/);
    expect(await first.finish()).toMatchObject({ status: 200 });
    await receiver.eventsUntil(({ length }) => length === 1);
    expect(await second.finish()).toMatchObject({ status: 200 });
    expect(await ended).toMatchObject({ code: 0 });
    for (const upload of [first, second]) upload.destroy();
  });
});
