import { createHash, randomBytes } from 'node:crypto';
import { request } from 'node:http';
import { text } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import { ListeningAgent } from './listening-agent.mjs';

export const CONNECTIONS = 16;
const SILENCE_MS = 60_000;
const PAUSE_MS = 5;
const AGAIN_MS = 100;
const KEYED_SHARE = 0.3;
/** A share of the files is so large that the service writes them in blocks, or sends them to a bucket in parts. */
export const SOME_LARGE = { share: 0.02, bytes: 6 * 1024 * 1024 + 1 };
const OPERATIONS = {
  historical: '/ingestHistoricalLoadData/upload_historical',
  nowcast: '/ingestNowcastLoadData/upload_nowcast',
};

/**
 * Clients that upload JSON, files and forms to a service continuously, until they are stopped or the service has ended.
 */
export class Load {
  #service;
  #ledger;
  #random;
  #sizes;
  #going = true;
  #onAnswer = () => undefined;

  /**
   * @param service a service that accepts connections
   * @param {import('./ledger.mjs').Ledger} ledger records the answers
   * @param {import('../../dist/testing/random.js').Random} random
   * @param {{ largest?: number, inParts?: { share: number, bytes: number } }} sizes the sizes of the uploaded files, in
   *   bytes: `largest` is the maximum, except for a share of the files (`inParts.share`) that have the size
   *   `inParts.bytes`
   */
  constructor(service, ledger, random, { largest = 200_000, inParts } = {}) {
    this.#service = service;
    this.#ledger = ledger;
    this.#random = random;
    this.#sizes = { largest, inParts };
    this.agent = new ListeningAgent({ keepAlive: true, maxSockets: CONNECTIONS });
    service.exited.then(() => (this.#going = false));
    this.ended = Promise.all(Array.from({ length: CONNECTIONS }, () => this.#work()));
  }

  /**
   * Resolves as soon as `isEnough` returns true after an answer. Rejects when the service ends by itself, or answers no
   * upload for 60 s.
   */
  async until(isEnough) {
    let answers = 0;
    const enough = new Promise((resolve) => {
      this.#onAnswer = () => {
        answers += 1;
        if (isEnough()) resolve(true);
      };
    });
    const stopped = this.ended.then(() => false);
    for (let known = -1; known !== answers; ) {
      known = answers;
      const silence = new AbortController();
      const timeout = delay(SILENCE_MS, undefined, { signal: silence.signal }).catch(() => undefined);
      const result = await Promise.race([enough, stopped, timeout]);
      silence.abort();
      if (result === true) return;
      if (result === false) throw new Error(`The service ended by itself: ${this.#service.output}`);
    }
    throw new Error(`No upload was answered for ${SILENCE_MS / 1000} s: ${this.#service.output}`);
  }

  stop() {
    this.#going = false;
    return this.ended;
  }

  async #work() {
    while (this.#going) {
      const upload = someUpload(this.#random, this.#ledger.nextName(), this.#sizes);
      try {
        await this.#send(upload);
        this.#onAnswer();
      } catch {
        // Either the service has ended, which `exited` reports a moment later, or it has closed a connection: the
        // client goes on.
        await delay(PAUSE_MS);
      }
    }
    this.agent.destroy();
  }

  #send({ path, headers, body, sent }) {
    const again = 'Idempotency-Key' in headers ? { path, headers, body } : undefined;
    return new Promise((resolve, reject) => {
      const options = { port: this.#service.port, host: '127.0.0.1', method: 'POST', path, headers, agent: this.agent };
      const upload = request(options);
      upload.once('error', reject).once('response', (answer) => {
        // The head of an answer with 200 acknowledges the upload, even if the body of the answer never arrives.
        if (answer.statusCode === 200) this.#ledger.acknowledge(answer.headers['x-upload-id'], sent, again);
        text(answer).then((said) => {
          if (answer.statusCode !== 200) this.#ledger.refuse(sent, answer.statusCode, said, this.#service);
          resolve();
        }, resolve);
      });
      upload.end(body);
    });
  }
}

/**
 * One random upload: the request, and the contents that must be stored (`sent`).
 *
 * @returns {{ path: string, headers: Record<string, string | number>, body: Buffer, sent: import('./ledger.mjs').Sent
 *   }}
 */
export function someUpload(random, filename, sizes) {
  const kind = random.pick(['historical', 'nowcast']);
  const { type, body, additionalData, bytes } = random.pick([json, raw, form])(random, sizes);
  const customerId = `c${random.below(8)}`;
  const path = `${OPERATIONS[kind]}?customer_id=${customerId}&filename=${filename}&manufacturer=m`;
  const key = random.chance(KEYED_SHARE) ? { 'Idempotency-Key': filename } : {};
  const headers = { 'Content-Type': type, 'Content-Length': body.length, ...key };
  const sha256 = bytes && createHash('sha256').update(bytes).digest('hex');
  return { path, headers, body, sent: { kind, customerId, filename, additionalData, size: bytes && bytes.length, sha256 } };
}

/** Random bytes for a file: mostly few and sometimes many, so that a crash hits uploads at every stage. */
function someBytes(random, { largest, inParts }) {
  if (inParts && random.chance(inParts.share)) return randomBytes(inParts.bytes);
  return randomBytes(random.below(random.chance(0.1) ? largest : 20_000));
}

function json(random) {
  const additionalData = random.pick([null, randomBytes(random.below(500)).toString('hex')]);
  const body = Buffer.from(JSON.stringify({ additional_data: additionalData }));
  return { type: 'application/json', body, additionalData, bytes: null };
}

function raw(random, sizes) {
  const bytes = someBytes(random, sizes);
  return { type: 'text/csv', body: bytes, additionalData: null, bytes };
}

function form(random, sizes) {
  const bytes = someBytes(random, sizes);
  const head =
    '--boundary\r\nContent-Disposition: form-data; name="additional_data"\r\n\r\nx\r\n' +
    '--boundary\r\nContent-Disposition: form-data; name="file"; filename="load.csv"\r\n\r\n';
  const body = Buffer.concat([Buffer.from(head), bytes, Buffer.from('\r\n--boundary--\r\n')]);
  return { type: 'multipart/form-data; boundary=boundary', body, additionalData: 'x', bytes };
}

/**
 * Repeats the latest acknowledged uploads that have an idempotency key, all at once. Each must be answered as a
 * repeated request, with the id of the stored upload.
 *
 * @param {number} [recoveryMs] how long the service may at first refuse the repeated requests with 500, because the
 *   store has only just come back
 */
export async function sendAgain(service, ledger, recoveryMs = 0) {
  const began = performance.now();
  const answers = ledger.takeKeyed().map(async ({ id, path, headers, body }) => {
    const send = () => fetch(new URL(path, service.url), { method: 'POST', headers, body });
    let answer = await send();
    while (answer.status === 500 && performance.now() - began < recoveryMs) {
      await answer.arrayBuffer();
      await delay(AGAIN_MS);
      answer = await send();
    }
    const replayed = answer.status === 200 && answer.headers.get('Idempotent-Replayed') === 'true';
    if (!replayed || answer.headers.get('X-Upload-Id') !== id) ledger.wrong.add(`${id} was repeated and answered with ${answer.status}, as if it were new`);
    await answer.arrayBuffer();
  });
  await Promise.all(answers);
}
