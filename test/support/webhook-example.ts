import { expect } from 'vitest';
import { WebhookUploadEvents } from '../../src/ingestion/adapters/out/webhook/webhook.upload-events.adapter.js';
import type { UploadEvent } from '../../src/ingestion/application/ports/upload-events.port.js';
import { anUploadEvent, aRemovalEvent, someUploadEvents } from '../../src/testing/upload-events.builder.js';
import type { Program } from './process.js';
import { SECRET } from './webhook-receiver.js';

/**
 * Expects that an example of a webhook with the secret `SECRET` prints each event once, and refuses events that are
 * signed with another secret. Ends the example.
 *
 * @param program the example, which first prints `port <port>`.
 * @param refusal the status with which the example refuses.
 */
export async function expectToTakeEvents(program: Program, refusal: number): Promise<void> {
  const adapters: WebhookUploadEvents[] = [];
  try {
    const [, port = ''] = /^port (\d+)$/.exec(await program.line(/^port/)) ?? [];
    const deliver = (events: readonly UploadEvent[], secret = SECRET): Promise<void> => {
      const adapter = new WebhookUploadEvents({ url: `http://127.0.0.1:${port}/hooks/uploads`, secrets: [secret] });
      adapters.push(adapter);
      return adapter.deliver(events, new AbortController().signal);
    };
    const events = [...(await someUploadEvents(2)), aRemovalEvent()];
    await expect(deliver(events, Buffer.alloc(32, 2))).rejects.toThrow(`The webhook answered ${refusal}.`);
    for (let time = 0; time < 2; time++) await deliver(events);
    const last = await anUploadEvent();
    await deliver([last]);
    await program.line(new RegExp(last.id));
    expect(program.lines.slice(1)).toEqual([...events, last].map(({ type, data }) => `${type} ${data.upload_id} ${data.customer_id}`));
  } finally {
    for (const adapter of adapters) await adapter.onApplicationShutdown();
    await program.end('SIGKILL');
  }
}
