import { Agent, request } from 'node:http';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';

const SILENCE_MS = 60_000;

/** Connections aren't reused, because the service may close an idle one at the moment when it is reused. */
const agent = new Agent({ keepAlive: false });

/**
 * Sends one request to a port of the loopback interface. Rejects with an error that has a `code` when there is no
 * answer.
 *
 * @param {number} port
 * @param {{ method?: string, path: string, headers?: Record<string, string | number>, body?: Buffer }} what
 * @param {{ pieces?: number, pauseMs?: number, silenceMs?: number }} [pace] the number of pieces in which the body is
 *   sent, and the pause between them; how long the client waits for the answer
 * @returns {Promise<{ status: number, headers: import('node:http').IncomingHttpHeaders, text?: string }>} `text` is
 *   missing if the connection broke after the answer's head.
 */
export function send(port, { method = 'POST', path, headers = {}, body }, { pieces = 1, pauseMs = 0, silenceMs = SILENCE_MS } = {}) {
  return new Promise((resolve, reject) => {
    const upload = request({ host: '127.0.0.1', port, method, path, headers, agent });
    let head;
    upload.setTimeout(silenceMs + pieces * pauseMs, () => upload.destroy(Object.assign(new Error('no answer'), { code: 'SILENCE' })));
    // An answer may arrive before the whole body is sent, and the connection may break after the answer's head has
    // arrived. The status in this head then counts as the answer.
    upload.on('error', (error) => (head ? resolve({ status: head.statusCode, headers: head.headers }) : reject(error)));
    upload.once('response', (answer) => {
      head = answer;
      const { statusCode: status, headers: fields } = answer;
      text(answer).then(
        (said) => resolve({ status, headers: fields, text: said }),
        () => resolve({ status, headers: fields }),
      );
    });
    void write(upload, body ?? Buffer.alloc(0), pieces, pauseMs);
  });
}

async function write(upload, body, pieces, pauseMs) {
  const length = Math.ceil(body.length / pieces);
  for (let piece = 0; piece < pieces; piece++) {
    if (piece > 0) await delay(pauseMs);
    if (upload.destroyed) return;
    upload.write(body.subarray(piece * length, (piece + 1) * length));
  }
  upload.end();
}

/**
 * Sends the head of a request and a share of its body, from 0 to 1. Never rejects. The caller closes the connection.
 */
export function begin(port, { path, headers, body }, share) {
  const socket = connect(port, '127.0.0.1').on('error', () => undefined);
  const fields = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  const head = `POST ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\n${fields.join('')}\r\n`;
  const sent = body.subarray(0, Math.floor(body.length * share));
  return new Promise((resolve) => {
    socket.once('close', () => resolve(socket));
    socket.write(Buffer.concat([Buffer.from(head), sent]), () => resolve(socket));
  });
}
