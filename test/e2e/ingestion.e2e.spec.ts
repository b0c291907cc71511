import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { BOUNDARY, form, FORM_TYPE } from '../support/form.js';
import { type RunningService, startService } from '../support/service.js';

const OPERATIONS = [
  ['historical', '/ingestHistoricalLoadData/upload_historical'],
  ['nowcast', '/ingestNowcastLoadData/upload_nowcast'],
] as const;
const PATH = OPERATIONS[0][1];
const GOOD = { customer_id: 'acme', filename: 'load.csv', manufacturer: 'meters inc' };
const QUERY = `?${new URLSearchParams(GOOD).toString()}`;
const MAX_UPLOAD = 4096;
const MAX_JSON = 1024;

let service: RunningService;
beforeAll(async () => {
  service = await startService({ MAX_UPLOAD_BYTES: String(MAX_UPLOAD), MAX_JSON_BYTES: String(MAX_JSON) });
});
afterAll(() => service.close());

type Init = RequestInit & { duplex?: 'half' };
const post = (target: string, init: Init = {}): Promise<Response> => fetch(service.url + target, { method: 'POST', ...init });
const json = (body: unknown): Init => ({ headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) });
const typed = (type: string, body: string | Buffer): Init => ({ headers: { 'Content-Type': type }, body: new Uint8Array(Buffer.from(body)) });
const untyped = (body: string): Init => ({ body: new Uint8Array(Buffer.from(body)) });
const chunked = (type: string, ...chunks: (string | Buffer)[]): Init => ({
  headers: { 'Content-Type': type },
  duplex: 'half',
  body: ReadableStream.from(chunks.map((chunk) => new Uint8Array(Buffer.from(chunk)))),
});

async function expectError(answer: Response, status: number, error: string): Promise<void> {
  expect({ status: answer.status, body: await answer.json() }).toEqual({ status, body: { error } });
  expect(answer.headers.get('content-type')).toBe('application/json; charset=utf-8');
  expect(answer.headers.get('x-request-id')).toMatch(/^[A-Za-z0-9._-]{1,128}$/);
  expect(await service.files('staging')).toEqual([]);
}

/** Sends an upload that must succeed. Resolves to the answer and to the index line of the upload. */
async function upload(init: Init, query = QUERY, path: string = PATH): Promise<{ answer: Response; line: Record<string, unknown> }> {
  const answer = await post(path + query, init);
  expect({ status: answer.status, body: await answer.json() }).toEqual({
    status: 200,
    body: { status: 'success', message: 'Data uploaded successfully.' },
  });
  const id = answer.headers.get('x-upload-id');
  const lines = (await service.lines()).filter(({ upload_id }) => upload_id === id);
  expect(lines).toHaveLength(1);
  return { answer, line: lines[0] ?? {} };
}

const bytesOf = (line: Record<string, unknown>): Promise<Buffer> => readFile(join(service.dataDirectory, String(line.content_path)));

describe.each(OPERATIONS)('POST upload_%s', (kind, path) => {
  it('stores a JSON upload as one line', async () => {
    const before = Date.now();
    const { answer, line } = await upload(json({ additional_data: 'meter 7 replaced' }), QUERY, path);
    const { upload_id, received_at, ...rest } = line;
    expect(rest).toEqual({
      kind,
      ...GOOD,
      additional_data: 'meter 7 replaced',
      content_path: null,
      content_type: null,
      content_size: null,
      content_sha256: null,
    });
    expect(upload_id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    expect(received_at).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
    expect(Date.parse(String(received_at))).toBeGreaterThanOrEqual(before);
    expect(answer.headers.get('x-upload-digest')).toBeNull();
    expect(answer.headers.get('content-type')).toBe('application/json; charset=utf-8');
  });

  it('stores a file byte for byte, with its line and digest', async () => {
    const bytes = Buffer.from([0, 255, 13, 10, 65, 0xc3]);
    const { answer, line } = await upload(typed('Text/CSV; header=present', bytes), QUERY, path);
    const sha256 = createHash('sha256').update(bytes);
    const date = String(line.received_at).slice(0, 10);
    expect(line).toMatchObject({
      kind,
      additional_data: null,
      content_path: `files/kind=${kind}/customer_id=acme/date=${date}/${String(line.upload_id)}.csv`,
      content_type: 'Text/CSV; header=present',
      content_size: bytes.length,
      content_sha256: sha256.copy().digest('hex'),
    });
    expect(answer.headers.get('x-upload-digest')).toBe(`sha-256=:${sha256.digest('base64')}:`);
    expect(await bytesOf(line)).toEqual(bytes);
  });
});

describe('an upload without a file', () => {
  it.each<[string, Init]>([
    ['no body, no content type', {}],
    ['no body, application/json', { headers: { 'Content-Type': 'application/json' } }],
    ['{}', json({})],
    ['{"additional_data": null}', json({ additional_data: null })],
    ['a repeated additional_data', typed('application/json', '{"additional_data":"x","additional_data":null}')],
    ['an empty chunked body', chunked('application/json')],
  ])('is accepted with %s', async (_name, init) => {
    const { line } = await upload(init);
    expect(line).toMatchObject({ additional_data: null, content_path: null });
  });

  it.each([
    ['the empty text', '', '""'],
    ['U+0000', '\u0000', '"\\u0000"'],
    ['a pair of surrogates', '😀', '"\\ud83d\\ude00"'],
    ['line breaks', 'a\nb\r\u2028', '"a\\nb\\r\u2028"'],
    ['JSON in a text', '{"a":1}', '"{\\"a\\":1}"'],
    ['surrounding blanks', '  x  ', '"  x  "'],
  ])('stores additional_data unchanged: %s', async (_name, text, source) => {
    const { line } = await upload(typed('application/json; charset=utf-8', `{"additional_data":${source},"more":1}`));
    expect(line.additional_data).toBe(text);
  });

  it.each([
    ['gzip', gzipSync],
    ['deflate', deflateSync],
    ['br', brotliCompressSync],
    ['GZIP', gzipSync],
    ['identity', (body: Buffer) => body],
  ] as const)('is accepted with a body encoded in %s', async (coding, encode) => {
    const headers = { 'Content-Type': 'application/json', 'Content-Encoding': coding };
    const { line } = await upload({ headers, body: new Uint8Array(encode(Buffer.from('{"additional_data":"packed"}'))) });
    expect(line.additional_data).toBe('packed');
  });
});

describe('an upload with a file', () => {
  it.each<[string, Init, string, string]>([
    ['any other type', typed('application/xml', '<a/>'), 'application/xml', '<a/>'],
    ['JSON with another member than additional_data', typed('application/json', '{ "readings":[1.0]}\n'), 'application/json', '{ "readings":[1.0]}\n'],
    ['a type that resembles JSON', typed('application/vnd.x+json', '{}'), 'application/vnd.x+json', '{}'],
    ['no type', untyped('abc'), 'application/octet-stream', 'abc'],
    ['an empty file', typed('text/csv', ''), 'text/csv', ''],
    ['an empty chunked file', chunked('text/csv'), 'text/csv', ''],
    ['a chunked file', chunked('text/csv', 'a', 'b', 'c'), 'text/csv', 'abc'],
    ['another multipart type', typed('multipart/mixed; boundary=x', 'abc'), 'multipart/mixed; boundary=x', 'abc'],
    ['a file of the maximum length', typed('text/csv', 'x'.repeat(MAX_UPLOAD)), 'text/csv', 'x'.repeat(MAX_UPLOAD)],
  ])('is accepted with %s', async (_name, init, type, text) => {
    const { line } = await upload(init);
    expect(line).toMatchObject({ content_type: type, content_size: text.length });
    expect((await bytesOf(line)).toString()).toBe(text);
  });
});

describe('a form', () => {
  const parameters = (count: number): string => Array.from({ length: count - 1 }, (_, number) => `; p${number}=x`).join('');
  const file = { name: 'file', value: 'a,b\r\n', filename: 'x.csv' };
  it.each<[string, Buffer, { type?: string; data?: string | null; bytes?: string }]>([
    ['a file', form(file), {}],
    ['a file whose type is stored as sent', form({ ...file, contentType: 'Text/CSV; charset="utf-8"' }), { type: 'Text/CSV; charset="utf-8"' }],
    ['additional_data before the file', form({ name: 'additional_data', value: 'é\u0000' }, file), { data: 'é\u0000' }],
    ['additional_data after the file', form(file, { name: 'additional_data', value: '\ufeffx' }), { data: '\ufeffx' }],
    ['empty additional_data', form(file, { name: 'additional_data', value: '' }), { data: '' }],
    ['an empty file', form({ ...file, value: '' }), { bytes: '' }],
    ['a file without a filename', form({ name: 'file', value: 'x' }), { bytes: 'x' }],
    ['other parts, which are ignored', form({ name: 'x', value: 'y', filename: 'z' }, file, { name: 'File', value: '1' }), {}],
    ['a filename that resembles a parameter', form({ ...file, filename: 'a; name=x' }), {}],
    ['semicolons in the filename', form({ ...file, filename: ';'.repeat(40) }), {}],
    ['sixteen parameters', form({ ...file, filename: `x"${parameters(14)}; last="` }), {}],
    ['a filename that is not ASCII', form({ ...file, filename: 'Zürich – 日本.csv' }), {}],
    ['text that resembles its boundary', form({ ...file, value: `\r\n--${BOUNDARY.slice(0, -1)}\r\n--` }), { bytes: `\r\n--${BOUNDARY.slice(0, -1)}\r\n--` }],
    ['a file of the maximum length', form({ ...file, value: 'x'.repeat(MAX_UPLOAD) }), { bytes: 'x'.repeat(MAX_UPLOAD) }],
    ['text around its parts', Buffer.concat([Buffer.from('preamble\r\n'), form(file), Buffer.from('epilogue')]), {}],
    ['blanks after the boundary', Buffer.from(form(file).toString('latin1').replace(BOUNDARY, `${BOUNDARY} \t`), 'latin1'), {}],
  ])('is accepted with %s', async (_name, body, expected) => {
    for (const init of [typed(FORM_TYPE, body), chunked(FORM_TYPE, ...Array.from(body, (byte) => Buffer.of(byte)).slice(0, 600), body.subarray(600))]) {
      const { line } = await upload(init);
      expect(line).toMatchObject({
        content_type: expected.type ?? 'application/octet-stream',
        additional_data: expected.data ?? null,
      });
      expect((await bytesOf(line)).toString()).toBe(expected.bytes ?? file.value);
    }
  });

  it('is accepted as encoded by fetch', async () => {
    const data = new FormData();
    data.set('additional_data', 'from a browser');
    data.set('file', new File(['1;2'], 'load "1".csv', { type: 'text/csv' }));
    const { line } = await upload({ body: data });
    expect(line).toMatchObject({ additional_data: 'from a browser', content_type: 'text/csv', content_size: 3 });
  });

  const whole = form(file);
  it.each<[string, Init]>([
    ['no boundary', typed('multipart/form-data', whole)],
    ['an empty boundary', typed('multipart/form-data; boundary=""', whole)],
    ['too long a boundary', typed(`multipart/form-data; boundary=${'x'.repeat(71)}`, whole)],
    ['another boundary', typed('multipart/form-data; boundary=other', whole)],
    ['no bytes', typed(FORM_TYPE, '')],
    ['no parts', typed(FORM_TYPE, form())],
    ['no part named file', typed(FORM_TYPE, form({ name: 'other', value: 'x' }))],
    ['two parts named file', typed(FORM_TYPE, form(file, file))],
    ['additional_data twice', typed(FORM_TYPE, form({ name: 'additional_data', value: '' }, file, { name: 'additional_data', value: '' }))],
    ['additional_data that is not UTF-8', typed(FORM_TYPE, form(file, { name: 'additional_data', value: Buffer.of(0xff) }))],
    ['a missing end', typed(FORM_TYPE, whole.subarray(0, -6))],
    ['an end in the middle of the file', typed(FORM_TYPE, whole.subarray(0, whole.indexOf('a,b') + 2))],
    ['an end in the middle of the headers', typed(FORM_TYPE, whole.subarray(0, 40))],
    ['a malformed header', typed(FORM_TYPE, Buffer.from(whole.toString().replace('Content-Disposition:', 'Content-Disposition')))],
    ['a malformed disposition', typed(FORM_TYPE, Buffer.from(whole.toString().replace('form-data;', 'form-data; ;=')))],
    ['seventeen parameters', typed(FORM_TYPE, form({ ...file, filename: `x"${parameters(15)}; last="` }))],
    ['a repeated header', typed(FORM_TYPE, Buffer.from(whole.toString().replace('Content-D', 'Content-Disposition: form-data; name="x"\r\nContent-D')))],
    ['too long headers', typed(FORM_TYPE, Buffer.from(whole.toString().replace('Content-D', `X: ${'y'.repeat(20_000)}\r\nContent-D`)))],
    ['text after the boundary', typed(FORM_TYPE, Buffer.from(whole.toString().replace(BOUNDARY, `${BOUNDARY}x`)))],
    ['a file whose disposition is not form-data', typed(FORM_TYPE, Buffer.from(whole.toString().replace('form-data;', 'attachment;')))],
  ])('is rejected with %s', async (_name, init) => {
    await expectError(await post(PATH + QUERY, init), 400, 'Invalid request body.');
  });
});

const long = (count: number, char = 'x'): string => char.repeat(count);
const query = (changes: Partial<Record<keyof typeof GOOD, string>>): string =>
  `?${Object.entries({ ...GOOD, ...changes }).map(([name, value]) => `${name}=${encodeURIComponent(value)}`).join('&')}`;

describe('query parameters', () => {
  it.each<[string, string]>([
    ['128 code points', query({ customer_id: long(40, '😀').slice(0, 40), manufacturer: long(128, '😀') })],
    ['a filename of 255 code points', query({ filename: long(255, 'ü') })],
    ['a customer id of 240 bytes on disk', query({ customer_id: long(80, ' ').replace(/^ | $/g, '%') })],
    ['texts that resemble paths', query({ customer_id: '..', filename: '...', manufacturer: '.' })],
    ['slashes outside the filename', query({ customer_id: 'a/b\\c', manufacturer: 'a/b' })],
    ['surrounding blanks', query({ customer_id: ' a ', filename: ' b ', manufacturer: ' c ' })],
    ['+ as a blank', QUERY],
    ['unknown parameters, even malformed', `${QUERY}&x=%zz&y[]=1&%zz=1&customer=2`],
    ['bytes that are not percent-encoded', '?customer_id=Z%C3%BCrich&filename=f&manufacturer=m'],
  ])('accepts %s', async (_name, search) => {
    const { line } = await upload(typed('text/csv', 'x'), search);
    const sent = new URLSearchParams(search);
    expect(line).toMatchObject(Object.fromEntries(Object.keys(GOOD).map((name) => [name, sent.get(name)])));
    expect((await bytesOf(line)).toString()).toBe('x');
  });

  const bad = (name: keyof typeof GOOD): [string, string][] => {
    const others = Object.entries(GOOD).filter(([other]) => other !== name).map((pair) => pair.join('=')).join('&');
    const most = name === 'filename' ? 255 : 128;
    const value = (text: string): string => `?${others}&${name}=${text}`;
    return [
      ['missing', `?${others}`],
      ['without a value', `?${others}&${name}`],
      ['empty', value('')],
      ['blank', value('%20%09')],
      ['blank in Unicode', value(encodeURIComponent('\u3000\u2003\u00a0'))],
      ['repeated', `${value('a')}&${name}=a`],
      ['as a list', `?${others}&${name}[]=a`],
      ['as an encoded list', `?${others}&${name}%5B%5D=a`],
      ['as a member', `?${others}&${name}[a]=a`],
      ['valid and also as a list', `${value('a')}&${name}[]=b`],
      ['valid and also as a member', `${value('a')}&${name}[b]=b`],
      ['too long', value(long(most + 1))],
      ['too long in code points', value(encodeURIComponent(long(most + 1, '😀')))],
      ['with U+0000', value('a%00')],
      ['with U+001F', value('a%1F')],
      ['with U+007F', value('a%7F')],
      ['with U+009F', value('a%C2%9F')],
      ['with malformed encoding', value('%zz')],
      ['with truncated encoding', value('a%2')],
      ['with invalid UTF-8', value('%FF')],
      ['with an encoded surrogate', value('%ED%A0%80')],
      ['overlong in UTF-8', value('%C0%AF')],
    ];
  };
  const names = Object.keys(GOOD) as (keyof typeof GOOD)[];
  it.each([
    ...names.flatMap((name) => bad(name).map(([what, search]) => [name, what, search] as const)),
    ['customer_id', 'over 240 bytes on disk', query({ customer_id: long(81, ' ').replace(/^ | $/g, '%') })] as const,
    ['customer_id', 'over 240 bytes on disk, of 21 characters', query({ customer_id: long(21, '😀') })] as const,
    ...['a/b', 'a\\b', '/', '\\', '.', '..'].map((name) => ['filename', name, query({ filename: name })] as const),
    ['the query', 'absent', ''] as const,
  ])('rejects %s %s', async (_parameter, _what, search) => {
    const before = (await service.lines()).length;
    await expectError(await post(PATH + search, typed('text/csv', 'x')), 400, 'Invalid or missing query parameter.');
    expect(await service.lines()).toHaveLength(before);
  });
});

describe('a body', () => {
  const headers = (coding: string): Record<string, string> => ({ 'Content-Type': 'application/json', 'Content-Encoding': coding });
  const raw = (bytes: Buffer): Uint8Array<ArrayBuffer> => new Uint8Array(bytes);
  it.each<[string, Init, number, string]>([
    ...(['{', 'null', '[]', '"x"', '1', 'true', ' ', '{"a":1}{}', "{'a':1}", '{"additional_data":1}', '{"additional_data":{}}',
      '{"additional_data":["x"]}', '{"additional_data":true}', '{"additional_data":"\\ud800"}', '{"additional_data":"\\udc00x"}',
      '['.repeat(400), `{"x":${'['.repeat(200)}${']'.repeat(200)}}`] as const
    ).map((text): [string, Init, number, string] => [text.slice(0, 40), typed('application/json', text), 400, 'Invalid request body.']),
    ['invalid UTF-8', typed('application/json', Buffer.from('{"additional_data":"\xff"}', 'latin1')), 400, 'Invalid request body.'],
    ['invalid UTF-8 in another member', typed('application/json', Buffer.from('{"x":"\xff"}', 'latin1')), 400, 'Invalid request body.'],
    ['broken gzip', { headers: headers('gzip'), body: raw(Buffer.from('{}')) }, 400, 'Invalid request body.'],
    ['truncated gzip', { headers: headers('gzip'), body: raw(gzipSync('{"additional_data":"x"}').subarray(0, -9)) }, 400, 'Invalid request body.'],
    ['JSON over the limit', typed('application/json', JSON.stringify({ x: long(MAX_JSON) })), 413, 'Payload too large.'],
    ['JSON over the limit, chunked', chunked('application/json', JSON.stringify({ x: long(MAX_JSON) })), 413, 'Payload too large.'],
    ['JSON over the limit after decoding', { headers: headers('gzip'), body: raw(gzipSync(JSON.stringify({ x: long(MAX_JSON) }))) }, 413, 'Payload too large.'],
    ['a decompression bomb', { headers: headers('br'), body: raw(brotliCompressSync(Buffer.alloc(30_000_000, ' '))) }, 413, 'Payload too large.'],
    ['a file over the limit', typed('text/csv', long(MAX_UPLOAD + 1)), 413, 'Payload too large.'],
    ['a file over the limit, chunked', chunked('text/csv', long(MAX_UPLOAD), 'x'), 413, 'Payload too large.'],
    ['a file over the limit in a form', typed(FORM_TYPE, form({ name: 'file', value: long(MAX_UPLOAD + 1) })), 413, 'Payload too large.'],
    ['additional_data over the limit in a form', typed(FORM_TYPE, form({ name: 'additional_data', value: long(MAX_JSON + 1) })), 413, 'Payload too large.'],
    ['endless other parts', chunked(FORM_TYPE, form({ name: 'x', value: long(1_100_000) })), 413, 'Payload too large.'],
    ['a urlencoded form', typed('application/x-www-form-urlencoded', 'a=b'), 415, 'Unsupported media type.'],
    ['an encoded file', { headers: { 'Content-Type': 'text/csv', 'Content-Encoding': 'gzip' }, body: raw(gzipSync('x')) }, 415, 'Unsupported media type.'],
    ['an encoded form', { headers: { 'Content-Type': FORM_TYPE, 'Content-Encoding': 'gzip' }, body: 'x' }, 415, 'Unsupported media type.'],
    ['an unknown coding', { headers: headers('zstd'), body: '{}' }, 415, 'Unsupported media type.'],
    ['a request of the tus protocol', { headers: { 'Tus-Resumable': '1.0.0', 'Content-Type': 'application/offset+octet-stream' }, body: 'x' }, 404, 'Not found.'],
    ['two codings', { headers: headers('gzip, br'), body: '{}' }, 415, 'Unsupported media type.'],
  ])('is rejected: %s', async (_name, init, status, error) => {
    const files = await service.files('files');
    const lines = await service.lines();
    await expectError(await post(PATH + QUERY, init), status, error);
    expect(await service.lines()).toHaveLength(lines.length);
    expect(await service.files('files')).toEqual(files);
  });

  it.each([
    ['short', 1_001],
    ['long', 100_000],
  ])('is rejected as JSON that would be kept as a file over the limit for files: %s', async (_name, size) => {
    const other = await startService({ MAX_UPLOAD_BYTES: '1000', MAX_JSON_BYTES: '3000000' });
    const body = (length: number) => JSON.stringify({ readings: long(length - '{"readings":""}'.length) });
    const send = (text: string) => fetch(other.url + PATH + QUERY, { method: 'POST', ...typed('application/json', text) });
    const refusal = await send(body(size));
    expect({ status: refusal.status, body: await refusal.json() }).toEqual({ status: 413, body: { error: 'Payload too large.' } });
    expect(await other.lines()).toEqual([]);
    expect((await send(body(1_000))).status).toBe(200);
    expect((await send(JSON.stringify({ additional_data: long(size) }))).status).toBe(200);
    await other.close();
  });

  it('leaves room in a form for the longest file and the longest additional_data at once', async () => {
    const other = await startService({ MAX_UPLOAD_BYTES: '1000', MAX_JSON_BYTES: '3000000' });
    const body = form({ name: 'additional_data', value: long(3_000_000) }, { name: 'file', value: long(1_000), filename: 'load.csv' });
    expect((await fetch(other.url + PATH + QUERY, { method: 'POST', ...typed(FORM_TYPE, body) })).status).toBe(200);
    await other.close();
  });

  it('is accepted as JSON of the maximum length', async () => {
    const text = long(MAX_JSON - '{"additional_data":""}'.length);
    expect((await upload(json({ additional_data: text }))).line.additional_data).toBe(text);
  });
});

describe('the order of refusals', () => {
  const bad = '?customer_id=';
  it.each<[string, string, Init, number]>([
    ['is 413 for the declared length before 415', PATH + QUERY, typed('application/x-www-form-urlencoded', long(MAX_UPLOAD + 1)), 413],
    ['is 413 for the declared length before 400', PATH + bad, typed('text/csv', long(MAX_UPLOAD + 1)), 413],
    ['is 415 before 400', PATH + bad, typed('application/x-www-form-urlencoded', 'x'), 415],
    ['is the query before the body', PATH + bad, typed('application/json', '{'), 400],
    ['is 404 before all others', `${PATH}x${bad}`, typed('application/x-www-form-urlencoded', long(MAX_UPLOAD + 1)), 404],
  ])('%s', async (_name, target, init, status) => {
    expect((await post(target, init)).status).toBe(status);
  });
});

describe('JSON that is designed to be expensive', () => {
  it('does not include many lists and objects beside each other', async () => {
    const wide = Array.from({ length: 150 }, () => ({}));
    expect((await upload(json({ x: wide, y: wide.map(() => []), additional_data: 'z' }))).line.additional_data).toBe('z');
  });

  const brackets = '['.repeat(200);
  it.each([
    ['after a quote in it', `"${brackets}`],
    ['after a backslash at its end', `${brackets}\\`],
    ['after both of them', `\\"${brackets}\\"`],
  ])('does not include a text with brackets %s', async (_name, text) => {
    const deep: unknown = Array.from({ length: 60 }).reduce((inner) => [{ a: inner }], 0);
    expect((await upload(json({ x: deep, additional_data: text, y: [] }))).line.additional_data).toBe(text);
  });
});

describe('simultaneous requests', () => {
  it('are kept separate: 50 uploads are stored once each', async () => {
    const names = Array.from({ length: 50 }, (_, index) => `simultaneous-${String(index)}`);
    await Promise.all(
      names.map(async (name, index) => {
        const init = [typed('text/csv', name), json({ additional_data: name }), typed(FORM_TYPE, form({ name: 'file', value: name }))][index % 3];
        const answer = await post(PATH + query({ customer_id: name }), init);
        expect(answer.status).toBe(200);
      }),
    );
    const lines = (await service.lines()).filter(({ customer_id }) => String(customer_id).startsWith('simultaneous-'));
    expect(lines.map(({ customer_id }) => customer_id).sort()).toEqual([...names].sort());
    for (const line of lines) {
      if (line.content_path !== null) expect((await bytesOf(line)).toString()).toBe(line.customer_id);
      else expect(line.additional_data).toBe(line.customer_id);
    }
  });
});
