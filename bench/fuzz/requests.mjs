import { createHash } from 'node:crypto';
import { randomBody } from './bodies.mjs';
import { OPERATIONS, OTHERS } from './rules.mjs';

const METHODS = ['GET', 'POST', 'PUT', 'DELETE', 'PATCH', 'HEAD', 'OPTIONS', 'TRACE', 'PROPFIND', 'CONNECT', 'get', 'FOO', 'M-SEARCH', 'QUERY'];
const PATHS = [...Object.keys(OPERATIONS), ...Object.keys(OPERATIONS), ...Object.keys(OTHERS)];

/**
 * A request as bytes, in parts that are written one after another.
 *
 * @typedef {object} FuzzRequest
 * @property {Buffer[]} parts
 * @property {string} method
 * @property {string} path the request's path, without the query.
 * @property {string} [requestId] the `X-Request-Id` that the answer must have.
 * @property {boolean} hangsUp whether the client disconnects after the last part.
 * @property {boolean} garbage whether the bytes may be no valid HTTP request. The service may then close the connection
 *   without an answer.
 */

/**
 * @param {import('../../dist/testing/random.js').Random} random
 * @param {{ token: string, userId: string, roleId: string }} known valid values that the request may use: an access
 *   token, and the ids of a user and of a role.
 * @returns {FuzzRequest}
 */
export function randomRequest(random, known) {
  if (random.chance(0.06)) return garbage(random);
  const path = random.chance(0.9) ? random.pick(PATHS) : bend(random, random.pick(PATHS));
  const method = randomMethod(random, path);
  const content = random.chance(method === 'POST' ? 0.95 : 0.15) ? randomBody(random, known) : { headers: [], body: Buffer.alloc(0) };
  const id = randomId(random);
  const headers = [
    ['Host', 'localhost'],
    ...authorization(random, known),
    ...content.headers,
    ...id.headers,
    ...digests(random, content.body),
    ...oddHeaders(random),
  ];
  const framed = frame(random, content.body);
  const head = [`${method} ${path}${randomQuery(random)} HTTP/1.1`, ...[...headers, ...framed.headers].map((pair) => pair.join(': ')), '', ''];
  const bytes = Buffer.concat([Buffer.from(head.join('\r\n'), 'latin1'), framed.body]);
  const hangsUp = random.chance(0.04);
  const sent = hangsUp ? bytes.subarray(0, random.below(bytes.length)) : bytes;
  return { parts: split(random, sent), method, path, requestId: id.expected, hangsUp, garbage: framed.broken };
}

function randomMethod(random, path) {
  if (random.chance(0.1)) return random.pick(METHODS);
  return random.pick(OPERATIONS[path]?.methods ?? OTHERS[path] ?? ['GET', 'POST']);
}

function bend(random, path) {
  return random.pick([
    () => `${path}/`,
    () => path.toUpperCase(),
    () => `/${path}`,
    () => path.replace(/\/(?=[^/]*$)/, '%2F'),
    () => `${path}/../../..`,
    () => `${path}%`,
    () => `${path}%00`,
    () => `http://localhost${path}`,
    () => '*',
    () => '/',
    () => `${path}#f`,
    () => `${path};a=b`,
    () => `/${'x'.repeat(random.below(20_000))}`,
    () => `/${random.bytes(20).toString('latin1').replaceAll(/[^\x21-\x7e\xa1-\xff]/g, 'x')}`,
  ])();
}

function randomQuery(random) {
  const values = ['c', 'load.csv', 'a%20b', '%F0%9F%94%8C', '', '+', '%', '%zz', '%ff', '%00', '%0a', '..', 'a%2Fb', 'x'.repeat(128), 'x'.repeat(256), '\xe4', '%ED%A0%80'];
  const parameters = ['customer_id', 'filename', 'manufacturer']
    .filter(() => random.chance(0.96))
    .map((name) => `${name}${random.chance(0.03) ? random.pick(['[]', '[a]', '%5B%5D', '[', '%']) : ''}=${random.chance(0.85) ? 'good' : random.pick(values)}`);
  if (random.chance(0.1)) parameters.push(random.pick(['customer_id=x', 'other=1', '=', '&&', 'filename', '__proto__=1', `p=${'y'.repeat(random.below(20_000))}`]));
  return random.chance(0.95) ? `?${parameters.join('&')}` : '';
}

function authorization(random, { token }) {
  const [head, payload, signature] = token.split('.');
  const none = Buffer.from('{"alg":"none","typ":"at+jwt"}').toString('base64url');
  const form = random.pick([
    ...Array(12).fill(`Bearer ${token}`),
    undefined,
    `bearer   ${token}`,
    token,
    'Bearer',
    'Bearer ',
    `Bearer ${token} ${token}`,
    `Bearer ${none}.${payload}.`,
    `Bearer ${head}.${payload}.${'A'.repeat(signature.length)}`,
    `Bearer ${head}.${Buffer.from('{"sub":"admin"}').toString('base64url')}.${signature}`,
    `Bearer ${'x'.repeat(10_000)}`,
    'Bearer \xff.\xff.\xff',
    'Basic YWRtaW46YWRtaW4=',
    'Basic %',
    'Digest a="b"',
    '',
  ]);
  if (form === undefined) return [];
  return random.chance(0.02) ? [['Authorization', form], ['authorization', form]] : [['Authorization', form]];
}

function randomId(random) {
  if (random.chance(0.5)) return { headers: [] };
  const id = random.pick(['abc-1.2_3', 'x'.repeat(128), 'x'.repeat(129), 'a b', '', 'ä', '../../etc', 'a;b']);
  if (random.chance(0.05)) return { headers: [['X-Request-Id', id], ['X-Request-Id', id]] };
  return { headers: [['X-Request-Id', id]], expected: /^[A-Za-z0-9._-]{1,128}$/.test(id) ? id : undefined };
}

function digests(random, body) {
  const headers = [];
  const right = `sha-256=:${createHash('sha256').update(body).digest('base64')}:`;
  for (const name of ['X-Upload-Digest', 'Content-Digest', 'Repr-Digest']) {
    if (random.chance(0.05)) headers.push([name, random.pick([right, right, 'sha-256=:AAAA:', 'sha-256', 'md5=:AAAA:', ':::', '', 'sha-512=:!:'])]);
  }
  if (random.chance(0.05)) headers.push(['Idempotency-Key', random.pick(['k1', 'k2', '', 'x'.repeat(256), 'a b', '"q"'])]);
  return headers;
}

function oddHeaders(random) {
  if (random.chance(0.9)) return [];
  return random.pick([
    () => [['Expect', random.pick(['100-continue', '200-ok', ''])]],
    () => [['Connection', random.pick(['close', 'upgrade', 'keep-alive, x'])]],
    () => [['Upgrade', 'websocket'], ['Connection', 'Upgrade']],
    () => [['X-Big', 'x'.repeat(random.below(30_000))]],
    () => Array.from({ length: random.below(300) }, (_, index) => [`X-${index}`, '1']),
    () => [['Accept', random.pick(['text/html', '*/*', 'x'])], ['Accept-Encoding', 'gzip, br']],
    () => [['Origin', 'https://a.example'], ['Access-Control-Request-Method', 'POST']],
    () => [['X-Forwarded-For', random.pick(['1.2.3.4', 'x', '1.2.3.4, '.repeat(100)])], ['X-Forwarded-Proto', 'https']],
    () => [['If-None-Match', '*'], ['Range', 'bytes=0-1'], ['X-HTTP-Method-Override', 'DELETE']],
    () => [['Bad Name', 'x']],
    () => [['X-Control', 'a\u0001b']],
    () => [['Host', 'other']],
  ])();
}

/**
 * Frames the body by chunks or by Content-Length, mostly correctly. `broken`: whether the frame is wrong, so that the
 * service may wait for more bytes or reject the request.
 */
function frame(random, body) {
  if (random.chance(0.25)) {
    const size = 1 + random.below(1_000);
    const chunks = [];
    for (let at = 0; at < body.length; at += size) {
      const chunk = body.subarray(at, at + size);
      chunks.push(Buffer.from(`${chunk.length.toString(16)}\r\n`), chunk, Buffer.from('\r\n'));
    }
    const broken = random.chance(0.05);
    chunks.push(Buffer.from(broken ? 'zz\r\n' : '0\r\n\r\n'));
    return { headers: [['Transfer-Encoding', 'chunked']], body: Buffer.concat(chunks), broken };
  }
  if (random.chance(0.04)) {
    const headers = random.pick([
      [['Content-Length', String(body.length + 10)]],
      [['Content-Length', String(body.length)], ['Content-Length', String(body.length + 1)]],
      [['Content-Length', '-1']],
      [['Content-Length', '99999999999999999999']],
      [['Content-Length', '6000000000']],
      [['Content-Length', String(body.length)], ['Transfer-Encoding', 'chunked']],
      [['Transfer-Encoding', 'gzip']],
      [['Content-Length', String(Math.floor(body.length / 2))]],
    ]);
    return { headers, body, broken: true };
  }
  return { headers: body.length === 0 && random.chance(0.5) ? [] : [['Content-Length', String(body.length)]], body, broken: false };
}

function split(random, bytes) {
  if (random.chance(0.8)) return [bytes];
  const at = random.below(bytes.length + 1);
  return [bytes.subarray(0, at), bytes.subarray(at)];
}

function garbage(random) {
  const bytes = random.pick([
    () => random.bytes(random.below(500)),
    () => Buffer.from('\r\n'.repeat(random.below(50))),
    () => Buffer.from('GET / HTTP/9.9\r\n\r\n'),
    () => Buffer.from('GET /\r\n\r\n'),
    () => Buffer.from('POST / HTTP/1.1\r\n\r\n'),
    () => Buffer.from('GET / HTTP/1.0\r\n\r\n'),
    () => Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'),
    () => Buffer.from([0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, 0xfc, 0x03, 0x03]),
    () => Buffer.from(`GET / HTTP/1.1\r\nHost: a\r\n${'X: y\r\n'.repeat(3_000)}`),
    () => Buffer.from('GET / HTTP/1.1\r\nHost: a\r\n'),
    () => Buffer.from('GET / HTTP/1.1\nHost: a\n\n'),
  ])();
  return { parts: split(random, bytes), method: '', path: '', hangsUp: random.chance(0.3), garbage: true };
}
