import { createHash, randomBytes } from 'node:crypto';
import { EventEmitter, once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { IncomingMessage } from 'node:http';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { JsonReader } from '../../src/common/json-reader.js';
import { bodyPace } from '../../src/http/body-pace.js';
import { type DecodingSlots, decodingSlots } from '../../src/http/decoding-slots.js';
import { form, FORM_TYPE } from '../support/form.js';
import { exchange, open, readAnswer } from '../support/raw.js';
import { type RunningService, startService } from '../support/service.js';
import { expectWait } from '../support/waiting-upload.js';

const UPLOAD = '/ingestHistoricalLoadData/upload_historical?customer_id=acme&filename=load.JSON&manufacturer=m';
const MAX_JSON = 10_485_760;
const CODINGS = [['gzip', gzipSync], ['deflate', deflateSync], ['br', brotliCompressSync]] as const;

let service: RunningService;
beforeAll(async () => {
  service = await startService();
});
afterAll(() => service.close());
afterEach(() => {
  vi.restoreAllMocks();
});

const post = (body: Buffer | string, headers: Record<string, string> = {}, path = UPLOAD): Promise<Response> =>
  fetch(service.url + path, { method: 'POST', body: new Uint8Array(Buffer.from(body)), headers: { 'Content-Type': 'application/json', ...headers } });
const line = async (answer: Response): Promise<Record<string, unknown>> => {
  expect({ status: answer.status, body: await answer.json() }).toMatchObject({ status: 200 });
  return (await service.line(answer.headers.get('x-upload-id') ?? '')) ?? {};
};
const keptFile = async (answer: Response): Promise<Buffer> => readFile(join(service.dataDirectory, String((await line(answer)).content_path)));
const refused = async (answer: Response, status = 400, error = 'Invalid request body.'): Promise<void> => {
  expect({ status: answer.status, body: await answer.json() }).toEqual({ status, body: { error } });
};
const sha256 = (bytes: Buffer | string, encoding: 'hex' | 'base64' = 'base64'): string => createHash('sha256').update(bytes).digest(encoding);
const digest = (bytes: Buffer | string): string => `sha-256=:${sha256(bytes)}:`;
/** A text that consists of `begin` and `end` around as many repetitions of `text` as fit into `length` bytes. */
const filled = (begin: string, text: string, end: string, length = MAX_JSON): string =>
  begin + text.repeat(Math.floor((length - Buffer.byteLength(begin + end)) / Buffer.byteLength(text))) + end;

describe.each([
  ['small', ''],
  ['large', 'z'.repeat(40_000)],
])('a JSON object with other members, %s', (_size, padding) => {
  it.each([
    ['after additional_data', `{"additional_data":"a","readings":[1.0,{"ä":"😀"}],"padding":"${padding}"}`, 'a'],
    ['before additional_data', `\ufeff{ "readings" : [1.0], "padding":"${padding}" , "additional_data" : "a\\u0000" }\n`, 'a\u0000'],
    ['without additional_data', `{"readings":[],"padding":"${padding}"}`, null],
    ['next to null', `{"additional_data":null,"readings":[],"padding":"${padding}"}`, null],
    ['named like a prototype', `{"__proto__":{"additional_data":"y"},"padding":"${padding}"}`, null],
    ['without names', `{"":1,"padding":"${padding}"}`, null],
  ])('is stored as a file exactly as it was received: %s', async (_name, body, additionalData) => {
    const answer = await post(body, { 'Content-Type': 'Application/JSON; charset=utf-8', 'X-Upload-Digest': digest(body), 'Content-Digest': digest(body) });
    expect(answer.headers.get('x-upload-digest')).toBe(digest(body));
    const kept = await line(answer);
    expect(kept).toMatchObject({
      additional_data: additionalData,
      content_type: 'Application/JSON; charset=utf-8',
      content_size: Buffer.byteLength(body),
      content_sha256: sha256(body, 'hex'),
    });
    expect(kept.content_path).toMatch(/\.json$/);
    expect((await readFile(join(service.dataDirectory, String(kept.content_path)))).toString()).toBe(body);
  });

  it.each(CODINGS)('is stored decoded, and accepts digests of both forms: %s', async (coding, encode) => {
    const body = `{"readings":[1,2],"padding":"${padding}"}`;
    const coded = encode(Buffer.from(body));
    const headers = { 'Content-Encoding': coding, 'X-Upload-Digest': digest(body), 'Content-Digest': digest(coded), 'Repr-Digest': digest(coded) };
    expect((await keptFile(await post(coded, headers))).toString()).toBe(body);
    await refused(await post(coded, { ...headers, 'X-Upload-Digest': digest(coded) }), 400, 'Digest mismatch.');
    await refused(await post(coded, { ...headers, 'Content-Digest': digest(body) }), 400, 'Digest mismatch.');
  });

  it.each([
    ['a member file', `{"additional_data":"a","file":{},"padding":"${padding}"}`],
    ['a member file after others', `{"x":1,"padding":"${padding}","file":null}`],
    ['an escaped member file', `{"padding":"${padding}","\\u0066ile":"x"}`],
    ['a defect at its end', `{"x":1,"padding":"${padding}"`],
    ['text after it', `{"x":1,"padding":"${padding}"}{}`],
    ['additional_data of another type after the rest', `{"x":1,"padding":"${padding}","additional_data":1}`],
    ['a lone surrogate', `{"x":1,"padding":"${padding}","additional_data":"\\ud800"}`],
  ])('is rejected for %s, and nothing is stored', async (_name, body) => {
    const [files, lines] = [await service.files('files'), await service.lines()];
    await refused(await post(body));
    expect(await service.files('files')).toEqual(files);
    expect(await service.lines()).toHaveLength(lines.length);
    expect(await service.files('staging')).toEqual([]);
  });

  it('is a different request under a key when its bytes differ', async () => {
    const headers = { 'Idempotency-Key': `file-${padding.length}` };
    const body = `{"additional_data":"a","x":1,"padding":"${padding}"}`;
    const first = await post(body, headers);
    const again = await post(body, headers);
    expect(again.headers.get('idempotent-replayed')).toBe('true');
    expect(again.headers.get('x-upload-id')).toBe(first.headers.get('x-upload-id'));
    expect(again.headers.get('x-upload-digest')).toBe(digest(body));
    await refused(await post(body.replace('"x":1', '"x":2'), headers), 422, 'Idempotency key reused.');
    await refused(await post('{"additional_data":"a"}', headers), 422, 'Idempotency key reused.');
  });
});

describe('the longest additional_data', () => {
  it.each([
    ['of ASCII', 'x', 'x'],
    ['of escapes', '\\u0001', '\u0001'],
    ['of emoji', '😀', '😀'],
    ['of pairs of escapes', '\\ud83d\\ude00', '😀'],
  ])('is stored under its key, %s', async (name, source, text) => {
    const body = filled('{"additional_data":"', source, '"}', 1_000_000);
    const data = (await line(await post(body, { 'Idempotency-Key': name.replaceAll(' ', '-') }))).additional_data as string;
    expect(data.length).toBe(((body.length - '{"additional_data":""}'.length) / source.length) * text.length);
    expect(data.replaceAll(text, '')).toBe('');
    const again = await post(body, { 'Idempotency-Key': name.replaceAll(' ', '-') });
    expect(again.headers.get('idempotent-replayed')).toBe('true');
    await refused(await post(`${body.slice(0, -2)}!"}`, { 'Idempotency-Key': name.replaceAll(' ', '-') }), 422, 'Idempotency key reused.');
  });

  it('is stored from a form', async () => {
    const text = '\u0001ä😀'.repeat(100_000);
    const body = form({ name: 'additional_data', value: text }, { name: 'file', value: 'a', filename: 'a.csv' });
    expect((await line(await post(body, { 'Content-Type': FORM_TYPE }))).additional_data).toBe(text);
  });

  it('is rejected from a form when it is not UTF-8', async () => {
    const value = Buffer.concat([Buffer.alloc(100_000, 'x'), Buffer.from([0xc3])]);
    await refused(await post(form({ name: 'additional_data', value }, { name: 'file', value: 'a' }), { 'Content-Type': FORM_TYPE }));
  });
});

describe('the event loop', () => {
  const hostile: [string, string, number][] = [
    ['a list of many objects', filled('{"x":[{}', ',{}', ']}'), 200],
    ['many members', filled('{"x":0', ',"a":0', '}'), 200],
    ['a long additional_data', filled('{"additional_data":"', '\\u0001', '"}'), 200],
    ['a defect at the end', filled('{"x":[{}', ',{}', ''), 400],
  ];
  it.each(hostile)('is never blocked for a whole body: %s', async (_name, body, status) => {
    const longest = { parse: 0, stringify: 0 };
    const { parse, stringify } = JSON;
    vi.spyOn(JSON, 'parse').mockImplementation((text: string, ...rest: []) => {
      longest.parse = Math.max(longest.parse, text.length);
      return parse(text, ...rest) as unknown;
    });
    vi.spyOn(JSON, 'stringify').mockImplementation((value: unknown, ...rest: []) => {
      const text = stringify(value, ...rest);
      longest.stringify = Math.max(longest.stringify, text.length);
      return text;
    });
    const answer = await post(gzipSync(body), { 'Content-Encoding': 'gzip', 'Idempotency-Key': createHash('sha256').update(body).digest('hex') });
    expect(answer.status).toBe(status);
    await answer.arrayBuffer();
    expect(Math.max(longest.parse, longest.stringify)).toBeLessThan(200_000);
  });

  it.each([
    ['JSON', 'application/json', (text: string) => JSON.stringify({ additional_data: text })],
    ['a form', FORM_TYPE, (text: string) => form({ name: 'additional_data', value: text }, { name: 'file', value: 'a' })],
  ])('is yielded after some pieces of a long additional_data: %s', async (name, type, bodyOf) => {
    const text = 'x'.repeat(1_000_000);
    const body = bodyOf(text);
    // Each reading of the clock advances it by a millisecond, so that a turn of the service processes few pieces of the
    // text, on a machine of any speed.
    const { stringify } = JSON;
    let now = performance.now();
    vi.spyOn(performance, 'now').mockImplementation(() => now++);
    const escaped = { inTurn: 0, most: 0, inAll: 0 };
    vi.spyOn(JSON, 'stringify').mockImplementation((value: unknown, ...rest: []) => {
      const json = stringify(value, ...rest);
      escaped.inTurn += json.length;
      escaped.inAll += json.length;
      escaped.most = Math.max(escaped.most, escaped.inTurn);
      return json;
    });
    let others = setImmediate(function turnOfOthers() {
      escaped.inTurn = 0;
      others = setImmediate(turnOfOthers);
    });
    const answer = await post(body, { 'Content-Type': type, 'Idempotency-Key': name.replace(' ', '-') });
    clearImmediate(others);
    vi.restoreAllMocks();
    expect((await line(answer)).additional_data).toBe(text);
    // The service escapes the text twice: for the index line, and for the digest with which it compares repeated
    // requests that have the same idempotency key.
    expect(escaped.inAll).toBeGreaterThan(2 * text.length);
    expect(escaped.most).toBeLessThan(300_000);
  });

  it('is yielded after each piece of JSON that is checked, if a piece takes longer than a turn', async () => {
    const body = filled('{"x":"', 'x', '"}', 1_000_000);
    let now = performance.now();
    vi.spyOn(performance, 'now').mockImplementation(() => (now += 10));
    const add = vi.spyOn(JsonReader.prototype, 'add');
    const checked: number[] = [];
    let others = setImmediate(function turnOfOthers() {
      checked.push(add.mock.calls.reduce((sum, [bytes]) => sum + bytes.length, 0));
      add.mockClear();
      others = setImmediate(turnOfOthers);
    });
    const answer = await post(body);
    clearImmediate(others);
    vi.restoreAllMocks();
    expect((await keptFile(answer)).toString()).toBe(body);
    expect(checked.reduce((sum, bytes) => sum + bytes, 0)).toBe(body.length);
    // A piece of JSON has 16 KiB. Two pieces may be checked between two turns of others, because the order of turns may
    // change once from one iteration of the event loop to the next.
    expect(Math.max(...checked)).toBeLessThanOrEqual(2 * 16 * 1024);
  });

  it('serves /health/live while sixty large bodies wait', async () => {
    const body = gzipSync(filled('{"x":[{}', ',{}', '', 1_000_000));
    const answered: string[] = [];
    const bodies = Array.from({ length: 60 }, async () => {
      await refused(await post(body, { 'Content-Encoding': 'gzip' }));
      answered.push('body');
    });
    for (let live = 0; live < 3; live++) {
      expect((await fetch(`${service.url}/health/live`)).status).toBe(200);
      answered.push('live');
    }
    expect(answered.filter((what) => what === 'body').length).toBeLessThan(60);
    await Promise.all(bodies);
  }, 120_000);
});

describe('a body in chunks of one byte', () => {
  const LENGTH = 100_000;
  it.each([
    ['JSON', UPLOAD, 'application/json', 200],
    ['a form', UPLOAD, 'multipart/form-data; boundary=b', 400],
    ['a file', UPLOAD, 'text/csv', 200],
    ['a body that nobody reads', '/nothing', 'text/csv', 404],
  ])('is read in long pieces, and waits for its turn: %s', async (_name, path, type, status) => {
    const read = vi.spyOn(Readable.prototype, 'read');
    const next = vi.spyOn(bodyPace, 'next');
    const head = `POST ${path} HTTP/1.1\r\nHost: x\r\nContent-Type: ${type}\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n`;
    const socket = await open(service.port);
    const answer = readAnswer(socket);
    const isClosed = once(socket, 'close');
    socket.write(`${head}1\r\n{\r\n${'1\r\n \r\n'.repeat(LENGTH)}1\r\n}\r\n0\r\n\r\n`);
    expect((await answer).status).toBe(status);
    socket.end();
    await isClosed;
    const ofBody = read.mock.results.filter((_result, at) => read.mock.contexts[at] instanceof IncomingMessage);
    const lengths = ofBody.flatMap(({ value }) => (Buffer.isBuffer(value) ? [value.length] : []));
    // One read from the socket has 64 KiB, so at most 10,923 chunks. Another 4 KiB may have been buffered before.
    expect(Math.max(...lengths)).toBeLessThanOrEqual(10_923 + 4 * 1024);
    expect(lengths.length).toBeLessThan(100);
    expect(lengths.reduce((sum, length) => sum + length, 0)).toBe(LENGTH + 2);
    const granted = next.mock.calls.reduce((sum, [, bytes]) => sum + bytes, 0);
    expect(granted).toBeGreaterThan(100 * LENGTH);
  });
});

describe('a body waits', () => {
  const SHORT = '{"additional_data":"x"}';
  /** Longer than 64 KiB when it is compressed. */
  const LONG = JSON.stringify({ additional_data: 'x', readings: randomBytes(100_000).toString('hex') });

  /** Takes all four slots. Each is freed after two seconds by a timer, which with fake timers never happens. */
  async function takeAll(slots: DecodingSlots): Promise<() => void> {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    const taken = await Promise.all(Array.from({ length: 4 }, () => slots.take(new EventEmitter())));
    vi.useRealTimers();
    return () => {
      for (const free of taken) free();
    };
  }

  it.each(CODINGS.flatMap(([coding, encode]) => [['short', coding, SHORT, decodingSlots.arrived, encode], ['long', coding, LONG, decodingSlots.arriving, encode]] as const))(
    'for a slot, until one of four is free, before it is decoded: a %s one in %s',
    async (_length, coding, body, slots, encode) => {
      const free = await takeAll(slots);
      const take = vi.spyOn(slots, 'take');
      const upload = post(encode(Buffer.from(body)), { 'Content-Encoding': coding });
      const answer = await expectWait(service, upload, () => take.mock.calls.length > 0, free);
      expect((await line(answer)).additional_data).toBe('x');
    },
  );

  it('for no slot while short compressed bodies are still arriving', async () => {
    const free = await takeAll(decodingSlots.arriving);
    const take = vi.spyOn(decodingSlots.arrived, 'take');
    const coded = gzipSync(SHORT);
    const slow = await Promise.all(Array.from({ length: 5 }, () => open(service.port)));
    try {
      for (const client of slow) client.write(`POST ${UPLOAD} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\nContent-Length: ${coded.length}\r\n\r\nx`);
      expect((await line(await post(coded, { 'Content-Encoding': 'gzip' }))).additional_data).toBe('x');
      expect(take).toHaveBeenCalledOnce();
    } finally {
      for (const client of slow) client.destroy();
      free();
    }
  });

  it('for no slot of an upload that was refused before its bytes were read', async () => {
    const first = await open(service.port);
    first.write(`POST ${UPLOAD} HTTP/1.1\r\nHost: x\r\nContent-Type: text/csv\r\nIdempotency-Key: slow\r\nContent-Length: 200000\r\n\r\n${'x'.repeat(100_000)}`);
    await vi.waitFor(async () => {
      expect(await service.files('staging')).not.toEqual([]);
    }, { timeout: 10_000 });
    const coded = gzipSync(LONG);
    const answers = await Promise.all(Array.from({ length: 4 }, () => post(coded, { 'Content-Encoding': 'gzip', 'Idempotency-Key': 'slow' })));
    expect(answers.map(({ status }) => status)).toEqual([409, 409, 409, 409]);
    const slot = decodingSlots.arriving.take(new EventEmitter());
    expect(decodingSlots.arriving.waitingCount).toBe(0);
    (await slot)();
    first.destroy();
  });

  it('while clients connect, if it is longer than 64 KiB', async () => {
    // The clock stands still, so that the body waits longer than the usual maximum of 200 ms. After a wait of this
    // length no body waits for a second. An earlier test may have caused such a wait, so the clock is ten minutes
    // ahead.
    const now = performance.now() + 600_000;
    vi.spyOn(performance, 'now').mockReturnValue(now);
    const next = vi.spyOn(bodyPace, 'next');
    bodyPace.arrived();
    let arrivals = setImmediate(function arrive() {
      bodyPace.arrived();
      arrivals = setImmediate(arrive);
    });
    const upload = post('x'.repeat(200_000), { 'Content-Type': 'text/csv' });
    const answer = await expectWait(service, upload, () => next.mock.calls.length > 0, () => { clearImmediate(arrivals); });
    expect(await line(answer)).toMatchObject({ content_size: 200_000 });
  });

  it('because the service notices each client that connects', async () => {
    const arrived = vi.spyOn(bodyPace, 'arrived');
    await exchange(service.port, 'GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n');
    expect(arrived).toHaveBeenCalledOnce();
  });
});

describe('data after an encoded body', () => {
  const small = '{"additional_data":"x"}';
  it.each(CODINGS.flatMap(([coding, encode]) => [small, filled('{"x":[0', ',0', ']}', 100_000)].flatMap((body) => [1, 100, 20_000, 70_000].map((length) => [coding, body.length, length, encode, body] as const))))(
    'is rejected: %s of %i bytes with %i extra bytes',
    async (coding, _length, length, encode, body) => {
      for (const more of [Buffer.alloc(length), Buffer.alloc(length, 'x')]) {
        await refused(await post(Buffer.concat([encode(Buffer.from(body)), more]), { 'Content-Encoding': coding }));
      }
    },
  );

  it('can be another member of gzip (RFC 1952, 2.2)', async () => {
    const body = Buffer.concat([gzipSync('{"additional_data":'), gzipSync('"x"}')]);
    expect((await line(await post(body, { 'Content-Encoding': 'gzip' }))).additional_data).toBe('x');
  });
});

describe('bodies of roles and users', () => {
  const path = '/idpManagementBackend/create-role';
  const tooLong = JSON.stringify({ role_name: 'r', permissions: ['a:b'], padding: 'x'.repeat(1_048_576) });
  it.each([
    ['by their declared length', tooLong, {}],
    ['after decoding', gzipSync(tooLong), { 'Content-Encoding': 'gzip' }],
  ])('are limited to 1 MiB, %s', async (_name, body, headers) => {
    const authorization = `Bearer ${await service.adminToken()}`;
    await refused(await post(body, { ...headers, Authorization: authorization }, path), 413, 'Payload too large.');
  });

  it('can have many other members and repeated permissions', async () => {
    const authorization = `Bearer ${await service.adminToken()}`;
    const padding = Object.fromEntries(Array.from({ length: 30_000 }, (_, key) => [String(key), key]));
    const body = JSON.stringify({ role_name: 'large', ...padding, permissions: Array.from({ length: 20_000 }, () => 'a:b') });
    expect((await post(body, { Authorization: authorization }, path)).status).toBe(201);
    await refused(await post(body.replace('"a:b"', '1'), { Authorization: authorization }, path), 400, 'Invalid role_name or permissions.');
  });
});

it('a form of over a thousand parts is rejected', async () => {
  const parts = (count: number) => Array.from({ length: count }, () => ({ name: 'x', value: '' }));
  const file = { name: 'file', value: 'a' };
  await refused(await post(form(...parts(1_000), file), { 'Content-Type': FORM_TYPE }));
  await line(await post(form(...parts(999), file), { 'Content-Type': FORM_TYPE }));
});
