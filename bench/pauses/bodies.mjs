import { brotliCompressSync, gzipSync } from 'node:zlib';

const MAX_JSON_BYTES = 10_485_760;

/**
 * @typedef {object} HostileBody a body of an upload that is designed to be as expensive for the service as possible
 * @property {string} title
 * @property {number} status the status of the answer
 * @property {boolean} keyed whether the upload has an idempotency key
 * @property {number} [chunkBytes] the length of the chunks in which the body is sent; undefined if it has a
 *   Content-Length
 * @property {() => { headers: Record<string, string>, body: Buffer, stored?: { additionalData: string | null, file:
 *   Buffer | null } }} make makes the body, which takes some time, and what the service stores of it
 */

const filled = (begin, text, end) =>
  begin + text.repeat(Math.floor((MAX_JSON_BYTES - Buffer.byteLength(begin + end)) / Buffer.byteLength(text))) + end;

/** How a JSON body with other members than `additional_data` is stored: the body is the upload's file. */
const asFile = (text) => ({ additionalData: null, file: Buffer.from(text) });

const json = (title, makeText, { status = 200, keyed = false, encode = gzipSync, coding = 'gzip', stored = asFile, chunkBytes } = {}) => ({
  title,
  status,
  keyed,
  chunkBytes,
  make: () => {
    const text = makeText();
    return {
      headers: { 'Content-Type': 'application/json', ...(coding && { 'Content-Encoding': coding }) },
      body: encode(text),
      ...(status === 200 && { stored: stored(text) }),
    };
  },
});

const additionalData = (title, text, options) =>
  json(title, () => filled('{"additional_data":"', text, '"}'), {
    stored: (body) => ({ additionalData: JSON.parse(body).additional_data, file: null }),
    ...options,
  });

const FILE_PART = '--b\r\nContent-Disposition: form-data; name="file"; filename="a.csv"\r\n\r\nx\r\n--b--\r\n';
const form = (title, makeText, { status = 200, stored = () => null, chunkBytes } = {}) => ({
  title,
  status,
  keyed: false,
  chunkBytes,
  make: () => ({
    headers: { 'Content-Type': 'multipart/form-data; boundary=b' },
    body: Buffer.from(makeText()),
    ...(status === 200 && { stored: { additionalData: stored(), file: Buffer.from('x') } }),
  }),
});

function distinctKeys() {
  const members = [];
  for (let key = 0, length = 2; length < MAX_JSON_BYTES - 12; key++) {
    const member = `"_${key.toString(36)}":0`;
    length += member.length + 1;
    members.push(member);
  }
  return `{${members.join(',')}}`;
}

function partOfParameters() {
  let header = 'Content-Disposition: form-data';
  for (let name = 0; header.length < 16_300; name++) header += `;${name.toString(36)}=b`;
  return `--b\r\n${header}\r\n\r\n\r\n`;
}

function partOfHeaders() {
  let headers = '';
  for (let name = 0; headers.length < 16_300; name++) headers += `${name.toString(36)}:\r\n`;
  return `--b\r\n${headers}\r\n\r\n`;
}

const emptyObjects = () => filled('{"x":[{}', ',{}', ']}');
const controlCharacters = () => '\u0001'.repeat(MAX_JSON_BYTES);

/**
 * The hostile bodies that the benchmark measures and the attack rig sends.
 *
 * @type {readonly HostileBody[]}
 */
export const HOSTILE_BODIES = [
  json('10 MiB of {} in 10 KB', emptyObjects),
  json('the same as br', emptyObjects, { encode: brotliCompressSync, coding: 'br' }),
  json('distinct keys', distinctKeys),
  json('distinct keys, not compressed', distinctKeys, { encode: Buffer.from, coding: null }),
  json('depth 128, again and again', () => filled('{"x":[0', `,${'['.repeat(120)}${']'.repeat(120)}`, ']}')),
  json('blanks', () => filled('{', ' ', '}'), { stored: () => ({ additionalData: null, file: null }) }),
  json('malformed at its end', () => filled('{"x":[{}', ',{}', ''), { status: 400 }),
  additionalData('additional_data of ASCII', 'x'),
  additionalData('additional_data of escapes', '\\u0001'),
  additionalData('additional_data of emoji', '😀'),
  additionalData('the same, keyed', '😀', { keyed: true }),
  json('readings, keyed', () => filled('{"readings":[1.5', ',1.5', ']}'), { keyed: true }),
  form('a form with 10 MiB of control characters', () => `--b\r\nContent-Disposition: form-data; name="additional_data"\r\n\r\n${controlCharacters()}\r\n${FILE_PART}`, { stored: controlCharacters }),
  form('20 MB of empty parts', () => `${'--b\r\n\r\n\r\n'.repeat(2_000_000)}${FILE_PART}`, { status: 400 }),
  form('20 MB of empty parts with names', () => `${'--b\r\nContent-Disposition: form-data; name="a"\r\n\r\n\r\n'.repeat(370_000)}${FILE_PART}`, { status: 400 }),
  form('a part with a blank header', () => `--b\r\nX: a${' '.repeat(16_000)}b\r\n\r\n\r\n${FILE_PART}`),
  form('blanks after a boundary', () => `--b${' \t'.repeat(1_000_000)}\r\n\r\n\r\n${FILE_PART}`),
  form('parts with thousands of parameters', () => `${partOfParameters().repeat(16)}${FILE_PART}`, { status: 400 }),
  form('parts with thousands of headers', () => `${partOfHeaders().repeat(100)}${FILE_PART}`),
  form('a form in 100,000 chunks', () => ' '.repeat(100_000), { status: 400, chunkBytes: 1 }),
  json('JSON in 100,000 chunks', () => `{${' '.repeat(99_998)}}`, { encode: Buffer.from, coding: null, stored: () => ({ additionalData: null, file: null }), chunkBytes: 1 }),
];
