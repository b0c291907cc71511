import { readFile, rm, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { jetstreamManager } from '@nats-io/jetstream';
import { connect, nanos } from '@nats-io/transport-node';
import ts from 'typescript';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { UploadEvent, UploadEvents } from '../../src/ingestion/application/ports/upload-events.port.js';
import { aRemovalEvent, someUploadEvents } from '../../src/testing/upload-events.builder.js';
import { uploadEventsContract } from '../../src/testing/upload-events.contract.js';
import { isNatsServerAvailable, type NatsServer, startNatsServer } from '../servers/nats-server.mjs';
import { packageDirectory } from '../support/package-directory.js';

const PAGE = 'docs/receivers.md';
const MOST_LINES = 30;

interface Snippet {
  readonly NatsUploadEvents: new (servers: string) => UploadEvents;
}

describe.runIf(isNatsServerAvailable())('the receiver for NATS JetStream in docs/receivers.md', () => {
  let directory: string;
  let snippet: Snippet;
  let code: string;
  beforeAll(async () => {
    [, code = ''] = /```ts\n([^]*?)```/.exec(await readFile(PAGE, 'utf8')) ?? [];
    const { outputText } = ts.transpileModule(code, { compilerOptions: { target: ts.ScriptTarget.ES2023, module: ts.ModuleKind.ESNext } });
    directory = await packageDirectory('nats');
    const file = resolve(join(directory, 'nats-upload-events.mjs'));
    await writeFile(file, outputText);
    snippet = (await import(/* @vite-ignore */ pathToFileURL(file).href)) as Snippet;
  });
  afterAll(() => rm(directory, { recursive: true }));

  /** All messages in the streams of a NATS server, in their order; none if there is no stream yet. */
  async function messagesIn({ url }: NatsServer): Promise<{ subject: string; event: UploadEvent }[]> {
    const connection = await connect({ servers: url });
    try {
      const { streams } = await jetstreamManager(connection);
      const messages: { subject: string; event: UploadEvent }[] = [];
      for await (const { config, state } of streams.list()) {
        for (let seq = 1; seq <= state.last_seq; seq++) {
          const message = await streams.getMessage(config.name, { seq });
          if (message) messages.push({ subject: message.subject, event: message.json<UploadEvent>() });
        }
      }
      return messages;
    } finally {
      await connection.close();
    }
  }

  /** How long the stream UPLOADS of a NATS server recognises an id that it has stored, in nanoseconds. */
  async function duplicateWindowOf({ url }: NatsServer): Promise<number> {
    const connection = await connect({ servers: url });
    try {
      return (await (await jetstreamManager(connection)).streams.info('UPLOADS')).config.duplicate_window;
    } finally {
      await connection.close();
    }
  }

  async function setUp(): Promise<{ server: NatsServer; events: UploadEvents; tearDown: () => Promise<void> }> {
    const server = await startNatsServer();
    return { server, events: new snippet.NatsUploadEvents(server.url), tearDown: () => server.stop() };
  }

  uploadEventsContract('NATS JetStream', async () => {
    const { server, ...subject } = await setUp();
    return {
      ...subject,
      taken: async () => (await messagesIn(server)).map(({ event }) => event),
      refuse: () => server.kill(),
      accept: () => server.restart(),
    };
  });

  it('stores an event once although it is delivered again, and under the subject of its type', async () => {
    const { server, events, tearDown } = await setUp();
    const [first, second] = await someUploadEvents(2);
    const removal = aRemovalEvent();
    const sent = [first, removal, second].flatMap((event) => event ?? []);
    for (const batch of [sent, sent.slice(1), [removal, ...sent]]) await events.deliver(batch, new AbortController().signal);
    const messages = sent.map((event) => ({ subject: event === removal ? 'uploads.removed' : 'uploads.stored', event }));
    expect(await messagesIn(server)).toEqual(messages);
    await tearDown();
  });

  it('stores an event once for an hour, as the page says, even if the server is restarted meanwhile', async () => {
    const { server, events, tearDown } = await setUp();
    const sent = await someUploadEvents(2);
    await events.deliver(sent, new AbortController().signal);
    await server.kill();
    await server.restart();
    await events.deliver(sent, new AbortController().signal);
    expect((await messagesIn(server)).map(({ event }) => event)).toEqual(sent);
    expect(await duplicateWindowOf(server)).toBe(nanos(3_600_000));
    await tearDown();
  });

  it('uses a stream that exists with other settings', async () => {
    const { server, events, tearDown } = await setUp();
    const connection = await connect({ servers: server.url });
    await (await jetstreamManager(connection)).streams.add({ name: 'UPLOADS', subjects: ['uploads.>'], max_msgs: 1_000 });
    await connection.close();
    const sent = await someUploadEvents(2);
    await events.deliver(sent, new AbortController().signal);
    expect((await messagesIn(server)).map(({ event }) => event)).toEqual(sent);
    await tearDown();
  });

  it('is short', () => {
    expect(code.trim().split('\n').length).toBeLessThanOrEqual(MOST_LINES);
  });
});
