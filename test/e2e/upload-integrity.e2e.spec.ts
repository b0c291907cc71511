import { createHash } from 'node:crypto';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { form, FORM_TYPE } from '../support/form.js';
import { type RunningService, startService } from '../support/service.js';

const HISTORICAL = '/ingestHistoricalLoadData/upload_historical';
const NOWCAST = '/ingestNowcastLoadData/upload_nowcast';
const FILE = Buffer.from('2026-01-01T00:00Z,3.31\n');
const FORM = form({ name: 'additional_data', value: 'more' }, { name: 'file', value: FILE, filename: 'load.csv' });
const JSON_BODY = Buffer.from('{"additional_data":"some"}');
const EMPTY = Buffer.alloc(0);

let service: RunningService;
beforeAll(async () => {
  service = await startService({});
});
afterAll(() => service.close());

type Headers = Readonly<Record<string, string>>;
interface Sent {
  readonly path?: string;
  readonly query?: Readonly<Record<string, string>>;
  readonly headers?: Headers;
  readonly body?: Buffer;
}

function post({ path = HISTORICAL, query = {}, headers = {}, body = FILE }: Sent): Promise<Response> {
  const parameters = new URLSearchParams({ customer_id: 'acme', filename: 'load.csv', manufacturer: 'm', ...query });
  return fetch(`${service.url}${path}?${parameters.toString()}`, { method: 'POST', headers, body: new Uint8Array(body) });
}

const digest = (bytes: Buffer, algorithm = 'sha256'): string =>
  `${algorithm.replace('sha', 'sha-')}=:${createHash(algorithm).update(bytes).digest('base64')}:`;

async function expectRefused(sent: Sent, status: number, error: string): Promise<Response> {
  const [lines, files] = [await service.lines(), await service.files('files')];
  const answer = await post(sent);
  expect({ status: answer.status, body: await answer.json() }).toEqual({ status, body: { error } });
  expect(await service.lines()).toHaveLength(lines.length);
  expect(await service.files('files')).toEqual(files);
  expect(await service.files('staging')).toEqual([]);
  return answer;
}

const RAW: Sent = { headers: { 'Content-Type': 'text/csv' }, body: FILE };
const MULTIPART: Sent = { headers: { 'Content-Type': FORM_TYPE }, body: FORM };
const JSON_SENT: Sent = { headers: { 'Content-Type': 'application/json' }, body: JSON_BODY };
const GZIPPED: Sent = { headers: { 'Content-Type': 'application/json', 'Content-Encoding': 'gzip' }, body: gzipSync(JSON_BODY) };
const NOTHING: Sent = { body: EMPTY, headers: { 'Content-Type': 'application/json' } };
const EMPTY_FILE: Sent = { body: EMPTY, headers: { 'Content-Type': 'text/csv' } };

const withHeaders = (sent: Sent, headers: Headers): Sent => ({ ...sent, headers: { ...sent.headers, ...headers } });

/**
 * The name of a form of upload, an upload of this form, the name of a digest field, and the bytes whose digest that
 * field contains.
 */
const ABOUT: [name: string, sent: Sent, field: string, bytes: Buffer][] = [
  ['raw', RAW, 'X-Upload-Digest', FILE],
  ['raw', RAW, 'Content-Digest', FILE],
  ['raw', RAW, 'Repr-Digest', FILE],
  ['a form', MULTIPART, 'X-Upload-Digest', FILE],
  ['a form', MULTIPART, 'Content-Digest', FORM],
  ['a form', MULTIPART, 'Repr-Digest', FORM],
  ['JSON', JSON_SENT, 'Content-Digest', JSON_BODY],
  ['JSON', JSON_SENT, 'Repr-Digest', JSON_BODY],
  ['gzipped JSON', GZIPPED, 'Content-Digest', GZIPPED.body ?? EMPTY],
  ['no body', NOTHING, 'Content-Digest', EMPTY],
  ['an empty file', EMPTY_FILE, 'X-Upload-Digest', EMPTY],
];
const OTHER = Buffer.from('other bytes');

/** All values are tried with each reader of bodies and each field once. For the rest of `ABOUT`, two values are enough. */
const TRIED_IN_FULL = ['raw with X-Upload-Digest', 'a form with Content-Digest', 'JSON with Repr-Digest'];

describe.each(ABOUT)('$0 with $2', (name, sent, field, bytes) => {
  const few = TRIED_IN_FULL.includes(`${name} with ${field}`) ? undefined : 1;

  it.each([
    ['sha-256', digest(bytes)],
    ['sha-512', digest(bytes, 'sha512')],
    ['both algorithms', `${digest(bytes)}, ${digest(bytes, 'sha512')}`],
    ['a digest with parameters', `${digest(bytes)};q=1;x="a,\\"b";y`],
    ['an unknown algorithm', `md5=:AAAA:,${digest(bytes)}`],
    ['only an unknown algorithm', 'unixsum=:AAAA:'],
    ['a repeated algorithm, whose last digest counts', `${digest(OTHER)}, ${digest(bytes)}`],
  ].slice(0, few))('is accepted with a matching digest: %s', async (_, value) => {
    expect((await post(withHeaders(sent, { [field]: value }))).status).toBe(200);
  });

  it.each([
    ['sha-256', digest(OTHER)],
    ['sha-512', digest(OTHER, 'sha512')],
    ['the second of two', `${digest(bytes)}, ${digest(OTHER, 'sha512')}`],
    ['the first of two', `${digest(OTHER)}, ${digest(bytes, 'sha512')}`],
  ].slice(0, few))('is rejected with another digest: %s', async (_, value) => {
    await expectRefused(withHeaders(sent, { [field]: value }), 400, 'Digest mismatch.');
  });
});

const SHA256 = createHash('sha256').update(FILE).digest('base64');

it.each([
  ['no member', ','],
  ['a trailing comma', `${digest(FILE)},`],
  ['text', 'hello'],
  ['a token', `sha-256=${SHA256.replaceAll(/[+/=]/g, 'a')}`],
  ['a string', `sha-256="${SHA256}"`],
  ['hex', `sha-256=:${createHash('sha256').update(FILE).digest('hex')}:`],
  ['missing padding', `sha-256=:${SHA256.replace(/=+$/, '')}:`],
  ['extra padding', `sha-256=:${SHA256}=:`],
  ['extra bits at the end', `sha-256=:${'A'.repeat(42)}B=:`],
  ['the alphabet of base64url', `sha-256=:${'-'.repeat(43)}=:`],
  ['another length', 'sha-256=:AAAA:'],
  ['sha-256 as sha-512', `sha-512=:${SHA256}:`],
  ['no bytes', 'sha-256=::'],
  ['an unknown algorithm whose value is not a byte sequence', 'md5=1'],
  ['an unknown algorithm whose value is not canonical', 'md5=:AAB=:'],
  ['an upper-case key', `SHA-256=:${SHA256}:`],
  ['a blank before the equals sign', `sha-256 =:${SHA256}:`],
  ['a missing comma', `${digest(FILE)} ${digest(FILE)}`],
  ['a broken parameter', `${digest(FILE)};=1`],
])('rejects a digest field with %s', async (_, value) => {
  for (const field of ['X-Upload-Digest', 'Content-Digest', 'Repr-Digest']) {
    await expectRefused(withHeaders(RAW, { [field]: value }), 400, 'Invalid digest.');
  }
});

describe('Idempotency-Key', () => {
  let count = 0;
  const newKey = (): string => `key-${(count += 1)}`;
  const keyed = (sent: Sent, key: string): Sent => withHeaders(sent, { 'Idempotency-Key': key });

  it.each([
    ['JSON', JSON_SENT],
    ['raw', RAW],
    ['a form', MULTIPART],
    ['an empty file', EMPTY_FILE],
  ])('answers a repeated request with the first answer: %s', async (_, sent) => {
    const key = newKey();
    const first = await post(keyed(sent, key));
    const lines = await service.lines();
    const second = await post(keyed(sent, key));
    expect([first.headers.get('idempotent-replayed'), second.headers.get('idempotent-replayed')]).toEqual([null, 'true']);
    expect(second.status).toBe(200);
    expect(await second.text()).toBe(await first.text());
    for (const name of ['x-upload-id', 'x-upload-digest']) expect(second.headers.get(name)).toBe(first.headers.get(name));
    expect(await service.lines()).toHaveLength(lines.length);
    expect(await service.files('staging')).toEqual([]);
    const line = lines.find(({ upload_id }) => upload_id === first.headers.get('x-upload-id'));
    expect(line).toMatchObject({ idempotency_key: key });
  });

  it('treats another boundary, and JSON with the same meaning, as the same request', async () => {
    const [form1, json1] = [newKey(), newKey()];
    const other = Buffer.from(FORM.toString().replaceAll('test-boundary', 'b2'));
    const pairs: [Sent, Sent][] = [
      [keyed(MULTIPART, form1), keyed({ headers: { 'Content-Type': 'multipart/form-data; boundary=b2' }, body: other }, form1)],
      [keyed(JSON_SENT, json1), keyed(GZIPPED, json1)],
    ];
    for (const [one, two] of pairs) {
      expect((await post(one)).status).toBe(200);
      expect((await post(two)).headers.get('idempotent-replayed')).toBe('true');
    }
  });

  it.each<[string, Sent, Sent]>([
    ['another filename', RAW, { ...RAW, query: { filename: 'other.csv' } }],
    ['another manufacturer', RAW, { ...RAW, query: { manufacturer: 'other' } }],
    ['other bytes', RAW, { ...RAW, body: OTHER }],
    ['other additional_data', JSON_SENT, { ...JSON_SENT, body: Buffer.from('{"additional_data":"other"}') }],
    ['no additional_data in a form', MULTIPART, { ...MULTIPART, body: form({ name: 'file', value: FILE }) }],
    ['a file instead of none', NOTHING, EMPTY_FILE],
  ])('rejects a different request under the same key: %s', async (_, first, second) => {
    const key = newKey();
    expect((await post(keyed(first, key))).status).toBe(200);
    await expectRefused(keyed(second, key), 422, 'Idempotency key reused.');
    expect((await post(keyed(first, key))).headers.get('idempotent-replayed')).toBe('true');
  });

  it.each<[string, Sent]>([
    ['customer', { ...RAW, query: { customer_id: 'other' } }],
    ['operation', { ...RAW, path: NOWCAST }],
  ])('is independent of the same key of another %s', async (_, other) => {
    const key = newKey();
    const first = await post(keyed(RAW, key));
    const second = await post(keyed(other, key));
    expect([second.status, second.headers.get('idempotent-replayed')]).toEqual([200, null]);
    expect(second.headers.get('x-upload-id')).not.toBe(first.headers.get('x-upload-id'));
  });

  it.each([
    ['empty', ''],
    ['with a blank', 'a b'],
    ['of 256 characters', 'x'.repeat(256)],
    ['not ASCII', 'schlüssel'],
    ['with a tab', 'a\tb'],
  ])('is rejected when it is not a valid key: %s', async (_, key) => {
    await expectRefused(keyed(RAW, key), 400, 'Invalid idempotency key.');
  });

  it.each(['x', 'x'.repeat(255), '!"#$%&\'()*+,-./:;<=>?@[]^_`{|}~', '"quoted"'])('is accepted unchanged: %s', async (key) => {
    expect((await post(keyed(RAW, key))).status).toBe(200);
    expect((await post(keyed(RAW, key))).headers.get('idempotent-replayed')).toBe('true');
  });

  it('is free after a failed upload', async () => {
    const key = newKey();
    await expectRefused(keyed(withHeaders(RAW, { 'X-Upload-Digest': digest(OTHER) }), key), 400, 'Digest mismatch.');
    await expectRefused(keyed({ ...JSON_SENT, body: Buffer.from('{') }, key), 400, 'Invalid request body.');
    expect((await post(keyed(RAW, key))).headers.get('idempotent-replayed')).toBeNull();
  });

  it('lets exactly one of fifty simultaneous requests through', async () => {
    const key = newKey();
    const answers = await Promise.all(Array.from({ length: 50 }, () => post(keyed(RAW, key))));
    const stored = answers.filter(({ status, headers }) => status === 200 && headers.get('idempotent-replayed') === null);
    expect(stored).toHaveLength(1);
    for (const answer of answers) {
      if (answer.status === 200) {
        expect(answer.headers.get('x-upload-id')).toBe(stored[0]?.headers.get('x-upload-id'));
        continue;
      }
      expect(answer.headers.get('retry-after')).toBe('1');
      expect({ status: answer.status, body: await answer.json() }).toEqual({ status: 409, body: { error: 'Request in progress.' } });
    }
    const lines = await service.lines();
    expect(lines.filter(({ idempotency_key }) => idempotency_key === key)).toHaveLength(1);
  });
});
