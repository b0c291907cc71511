import { constants, createHmac, createPublicKey, generateKeyPairSync, type KeyObject, sign } from 'node:crypto';
import { once } from 'node:events';
import { createServer, IncomingMessage, type RequestListener } from 'node:http';
import { type AddressInfo, Socket } from 'node:net';
import type { JWK } from 'jose';

export const AUDIENCE = 'load-data-api';

export const rsaKey = (bits = 2048): KeyObject => generateKeyPairSync('rsa', { modulusLength: bits }).privateKey;
export const ecKey = (): KeyObject => generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey;

/** Returns the public key of a key pair as a JSON Web Key, with additional members. */
export const jwkOf = (key: KeyObject, members: JWK): JWK => ({ ...createPublicKey(key).export({ format: 'jwk' }), ...members });

const encode = (value: unknown): string =>
  Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)).toString('base64url');

/**
 * Makes a compact JWS, which may be invalid. A payload that is a text is used as it is. The signature is empty if `alg`
 * is `none`, and an HMAC with SHA-256 if `key` is a text. Otherwise `key` signs as `alg` says (`PS256` or `RS512`), or
 * with SHA-256.
 */
export function signToken(key: KeyObject | string, header: Readonly<Record<string, unknown>>, payload: unknown): string {
  const input = `${encode(header)}.${encode(payload)}`;
  const signature = (): Buffer => {
    if (header.alg === 'none') return Buffer.alloc(0);
    if (typeof key === 'string') return createHmac('sha256', key).update(input).digest();
    if (header.alg === 'PS256') {
      return sign('sha256', Buffer.from(input), { key, padding: constants.RSA_PKCS1_PSS_PADDING, saltLength: 32 });
    }
    return sign(header.alg === 'RS512' ? 'sha512' : 'sha256', Buffer.from(input), { key, dsaEncoding: 'ieee-p1363' });
  };
  return `${input}.${signature().toString('base64url')}`;
}

/** Returns an HTTP request with one `Authorization` header for each of these values. */
export function requestWith(...authorization: readonly string[]): IncomingMessage {
  const request = new IncomingMessage(new Socket());
  request.rawHeaders = ['Host', 'localhost', ...authorization.flatMap((value) => ['Authorization', value])];
  request.headers = { host: 'localhost', ...(authorization.length > 0 && { authorization: authorization[0] }) };
  return request;
}

/** The current time, in whole seconds since 1970. */
export const now = (): number => Math.floor(Date.now() / 1000);

/** A token issuer for tests, which serves its key set over HTTP on loopback. */
export class TestIssuer {
  keys: JWK[] = [];
  fetches = 0;
  answer: RequestListener | undefined;
  #port = 0;
  #server = createServer();

  get url(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  get keySetUrl(): string {
    return `${this.url}/jwks`;
  }

  /** Listens on a free port or, after `stop`, on the same port as before. */
  async start(): Promise<this> {
    this.#server = createServer((request, response) => {
      this.fetches++;
      if (this.answer) this.answer(request, response);
      else response.setHeader('Content-Type', 'application/json').end(JSON.stringify({ keys: this.keys }));
    });
    await once(this.#server.listen(this.#port, '127.0.0.1'), 'listening');
    this.#port = (this.#server.address() as AddressInfo).port;
    return this;
  }

  async stop(): Promise<void> {
    if (!this.#server.listening) return;
    this.#server.close();
    this.#server.closeAllConnections();
    await once(this.#server, 'close');
  }
}
