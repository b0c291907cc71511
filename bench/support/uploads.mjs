import { createHash, randomBytes, randomInt } from 'node:crypto';
import { Agent, request } from 'node:http';

const OPERATIONS = ['/ingestHistoricalLoadData/upload_historical', '/ingestNowcastLoadData/upload_nowcast'];

/** Uploads JSON, files and forms over so many connections, until told to stop or the service is gone. */
export class Load {
  /** Upload ids, and the sha256 of the bytes (null without a file) of all that was acknowledged. */
  acknowledged = new Map();
  /** Answers other than 200. */
  refused = [];
  #going = true;

  constructor(port, connections, onAcknowledged) {
    this.agent = new Agent({ keepAlive: true, maxSockets: connections });
    this.port = port;
    this.onAcknowledged = onAcknowledged;
    this.ended = Promise.all(Array.from({ length: connections }, (_, index) => this.#work(index)));
  }

  /** What is under way goes on to its end. */
  stop() {
    this.#going = false;
    return this.ended;
  }

  async #work(first) {
    for (let number = first; this.#going; number++) {
      const { type, body, bytes } = [json, raw, form][number % 3]();
      const query = `?customer_id=c${randomInt(8)}&filename=load.csv&manufacturer=m`;
      try {
        const { status, id } = await this.#post(OPERATIONS[randomInt(2)] + query, type, body);
        if (status === 200) this.acknowledged.set(id, bytes && createHash('sha256').update(bytes).digest('hex'));
        else this.refused.push(status);
      } catch {
        return;
      }
      this.onAcknowledged?.();
    }
  }

  #post(path, type, body) {
    return new Promise((resolve, reject) => {
      const headers = { 'Content-Type': type, 'Content-Length': body.length };
      const upload = request({ port: this.port, host: '127.0.0.1', method: 'POST', path, headers, agent: this.agent });
      upload.once('error', reject).once('response', (answer) => {
        // The head alone says that the upload is kept.
        const { statusCode: status, headers } = answer;
        answer.resume().once('end', () => resolve({ status, id: headers['x-upload-id'] }));
        answer.once('error', () => resolve({ status, id: headers['x-upload-id'] }));
      });
      upload.end(body);
    });
  }
}

/** Mostly small, at times large: a kill should meet uploads at every stage. */
const someBytes = () => randomBytes(randomInt(10) === 0 ? randomInt(1_000_000) : randomInt(20_000));

function json() {
  const additional_data = randomBytes(randomInt(500)).toString('hex');
  return { type: 'application/json', body: Buffer.from(JSON.stringify({ additional_data })), bytes: null };
}

function raw() {
  const bytes = someBytes();
  return { type: 'text/csv', body: bytes, bytes };
}

function form() {
  const bytes = someBytes();
  const head =
    '--boundary\r\nContent-Disposition: form-data; name="additional_data"\r\n\r\nx\r\n' +
    '--boundary\r\nContent-Disposition: form-data; name="file"; filename="load.csv"\r\n\r\n';
  const body = Buffer.concat([Buffer.from(head), bytes, Buffer.from('\r\n--boundary--\r\n')]);
  return { type: 'multipart/form-data; boundary=boundary', body, bytes };
}
