import { brotliCompressSync, gzipSync } from 'node:zlib';

const MAX_JSON_BYTES = 10_485_760;
const UPLOAD = '/ingestHistoricalLoadData/upload_historical?customer_id=c&filename=load.json&manufacturer=m';

/** A body: `begin` and `end` around as many repetitions of a text as the longest JSON body allows. */
const filled = (begin, text, end) =>
  begin + text.repeat(Math.floor((MAX_JSON_BYTES - Buffer.byteLength(begin + end)) / Buffer.byteLength(text))) + end;

const json = (title, text, { status = 200, keyed = false, encode = gzipSync, coding = 'gzip' } = {}) => ({
  title,
  status,
  keyed,
  headers: { 'Content-Type': 'application/json', 'Content-Encoding': coding },
  body: encode(text),
});

const FILE_PART = '--b\r\nContent-Disposition: form-data; name="file"; filename="a.csv"\r\n\r\nx\r\n--b--\r\n';
const form = (title, text, status = 200) => ({
  title,
  status,
  keyed: false,
  headers: { 'Content-Type': 'multipart/form-data; boundary=b' },
  body: Buffer.from(text),
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

/** Uploads whose bodies are designed to be as expensive for the service as possible. */
export function hostileBodies() {
  const additionalData = (text) => filled('{"additional_data":"', text, '"}');
  return [
    json('10 MiB of {} in 10 KB', filled('{"x":[{}', ',{}', ']}')),
    json('the same as br', filled('{"x":[{}', ',{}', ']}'), { encode: brotliCompressSync, coding: 'br' }),
    json('distinct keys', distinctKeys()),
    json('depth 128, again and again', filled('{"x":[0', `,${'['.repeat(120)}${']'.repeat(120)}`, ']}')),
    json('blanks', filled('{', ' ', '}')),
    json('malformed at its end', filled('{"x":[{}', ',{}', ''), { status: 400 }),
    json('additional_data of ASCII', additionalData('x')),
    json('additional_data of escapes', additionalData('\\u0001')),
    json('additional_data of emoji', additionalData('😀')),
    json('the same, keyed', additionalData('😀'), { keyed: true }),
    json('readings, keyed', filled('{"readings":[1.5', ',1.5', ']}'), { keyed: true }),
    form('a form with 10 MiB of control characters', `--b\r\nContent-Disposition: form-data; name="additional_data"\r\n\r\n${'\u0001'.repeat(MAX_JSON_BYTES)}\r\n${FILE_PART}`),
    form('20 MB of empty parts', `${'--b\r\n\r\n\r\n'.repeat(2_000_000)}${FILE_PART}`, 400),
    form('a part with a blank header', `--b\r\nX: a${' '.repeat(16_000)}b\r\n\r\n\r\n${FILE_PART}`),
  ].map((request) => ({ ...request, path: UPLOAD }));
}
