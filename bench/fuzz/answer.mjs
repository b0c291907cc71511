/**
 * Parses the first final answer (not 1xx) in the bytes that a connection received. Undefined while this answer is
 * incomplete.
 *
 * @param {Buffer} received
 * @param {string} method the request's method: an answer to HEAD has no body.
 * @param {boolean} ended whether the connection will receive nothing more.
 */
export function parseAnswer(received, method, ended) {
  const end = received.indexOf('\r\n\r\n');
  if (end < 0) return undefined;
  const [statusLine = '', ...lines] = received.subarray(0, end).toString('latin1').split('\r\n');
  const status = Number(/^HTTP\/1\.1 (\d{3})/.exec(statusLine)?.[1]);
  const rest = received.subarray(end + 4);
  if (status < 200) return parseAnswer(rest, method, ended);
  const headers = new Map(lines.map((line) => [line.slice(0, line.indexOf(':')).toLowerCase(), line.slice(line.indexOf(':') + 1).trim()]));
  const body = method === 'HEAD' || status === 204 || status === 304 ? Buffer.alloc(0) : bodyOf(headers, rest, ended);
  return body && { status, headers, body: body.toString() };
}

function bodyOf(headers, rest, ended) {
  if (headers.get('transfer-encoding') === 'chunked') return dechunk(rest);
  const length = headers.get('content-length');
  if (length === undefined) return ended ? rest : undefined;
  return rest.length >= Number(length) ? rest.subarray(0, Number(length)) : undefined;
}

function dechunk(rest) {
  const chunks = [];
  for (;;) {
    const line = rest.indexOf('\r\n');
    if (line < 0) return undefined;
    const size = parseInt(rest.subarray(0, line).toString(), 16);
    if (rest.length < line + 2 + size + 2) return undefined;
    if (size === 0) return Buffer.concat(chunks);
    chunks.push(rest.subarray(line + 2, line + 2 + size));
    rest = rest.subarray(line + 2 + size + 2);
  }
}
