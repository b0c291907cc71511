import type { Readable } from 'node:stream';
import type { GetObjectCommandInput, PutObjectCommandInput, S3Client } from '@aws-sdk/client-s3';

/** A request as the SDK's signer and request handler know it. */
interface HttpRequest {
  readonly method: string;
  readonly protocol: string;
  readonly hostname: string;
  readonly port?: number;
  readonly path: string;
  readonly query?: Record<string, string>;
  readonly headers: Record<string, string>;
  readonly body?: Buffer | undefined;
}

type Signer = Awaited<ReturnType<S3Client['config']['signer']>>;

/** The commands of the SDK whose requests can also be sent directly. */
export type DirectCommand = 'GetObjectCommand' | 'PutObjectCommand';

export interface DirectRequest {
  /** The whole key, with the prefix of the bucket. */
  readonly key: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Buffer;
  readonly abortSignal: AbortSignal;
}

export interface DirectAnswer {
  readonly statusCode: number;
  /** By names in lower case. */
  readonly headers: Readonly<Record<string, string | undefined>>;
  /** Must be read to its end or destroyed. */
  readonly body: Readable;
}

/** What the requests of one command have in common. */
interface Pattern {
  readonly request: Omit<HttpRequest, 'path'>;
  /** The path before the key. */
  readonly directory: string;
  /** The names of the headers of the SDK's request. */
  readonly headers: ReadonlySet<string>;
  readonly signer: Signer;
  /** Whether the store has refused the latest direct request, and not because of its object. */
  isRefused: boolean;
  /** How often in a row the SDK has then sent such a request with success. */
  overruled: number;
}

const COMMANDS: ReadonlySet<string> = new Set<DirectCommand>(['GetObjectCommand', 'PutObjectCommand']);
/** The headers that don't depend on the object, the moment or the credentials. */
const COMMON_HEADERS: ReadonlySet<string> = new Set([
  'content-type',
  'host',
  'user-agent',
  'x-amz-checksum-mode',
  'x-amz-sdk-checksum-algorithm',
  'x-amz-user-agent',
]);
const UNSIGNED = 'UNSIGNED-PAYLOAD';
/** When the SDK has had success so often where direct requests of a command had none, no more are sent. */
const MAX_OVERRULED = 10;
/** The header `authorization` of Signature Version 4, with the region. Other signatures have another scheme or service. */
const SIGNATURE = /^AWS4-HMAC-SHA256 Credential=[^/]+\/\d{8}\/([^/]+)\/s3\/aws4_request,/;

/**
 * Sends requests without the SDK's chain of functions around each of them. A small object then takes 0.15 instead of
 * 0.7 ms of processor time to read, and 0.19 instead of 0.87 ms to write. A direct request is like the first successful
 * one that the SDK has sent for the same command, and goes through the SDK's signer and connections. Nothing is
 * repeated, and no answer is an error. The caller leaves to the SDK what it doesn't expect.
 */
export class DirectRequests {
  private readonly patterns = new Map<string, Pattern>();

  constructor(private readonly client: S3Client) {
    client.middlewareStack.add(
      (next, { commandName = '' }) => async (args) => {
        const result = await next(args);
        const { statusCode = 0 } = result.response as { readonly statusCode?: number };
        if (!COMMANDS.has(commandName) || statusCode < 200 || statusCode >= 300) return result;
        const pattern = this.patterns.get(commandName);
        if (!pattern) await this.learn(commandName, args.request as HttpRequest, args.input as GetObjectCommandInput | PutObjectCommandInput);
        else if (pattern.isRefused) Object.assign(pattern, { isRefused: false, overruled: pattern.overruled + 1 });
        return result;
      },
      // After the step in which the SDK signs.
      { step: 'deserialize', priority: 'low', name: 'directRequests' },
    );
  }

  /** Whether the SDK's requests of a command have a header; undefined if `send` can't send such requests yet. */
  hasHeader(command: DirectCommand, name: string): boolean | undefined {
    return this.patterns.get(command)?.headers.has(name);
  }

  /**
   * Sends a request once. Resolves to any answer of the store, and to undefined if the SDK hasn't sent a request of
   * this command successfully yet, or signs in another way, or if the store has refused ten such requests in a row that
   * the SDK then sent with success. Rejects when the connection fails or is silent for the time-out, when there are no
   * credentials, and when the signal aborts.
   */
  async send(command: DirectCommand, { key, headers, body, abortSignal }: DirectRequest): Promise<DirectAnswer | undefined> {
    const pattern = this.patterns.get(command);
    if (!pattern || pattern.overruled >= MAX_OVERRULED) return undefined;
    const { config } = this.client;
    const request: HttpRequest = { ...pattern.request, path: pattern.directory + encoded(key), headers: { ...pattern.request.headers, ...headers }, body };
    const signed = await pattern.signer.sign(request, { signingDate: new Date(Date.now() + config.systemClockOffset) });
    const { response } = (await config.requestHandler.handle(signed, { abortSignal })) as { readonly response: DirectAnswer };
    pattern.isRefused = isRefusal(response.statusCode);
    if (!pattern.isRefused) pattern.overruled = 0;
    return response;
  }

  private async learn(command: string, request: HttpRequest, { Key = '' }: GetObjectCommandInput | PutObjectCommandInput): Promise<void> {
    const { method, protocol, hostname, port, path, query, headers } = request;
    const signingRegion = SIGNATURE.exec(headers.authorization ?? '')?.[1];
    const key = encoded(Key);
    if (signingRegion === undefined || !path.endsWith(`/${key}`)) return;
    const kept = Object.entries(headers).filter(([name]) => COMMON_HEADERS.has(name));
    const digest = headers['x-amz-content-sha256'];
    if (digest !== undefined && (method === 'GET' || digest === UNSIGNED)) kept.push(['x-amz-content-sha256', digest]);
    this.patterns.set(command, {
      request: { method, protocol, hostname, ...(port !== undefined && { port }), ...(query && { query }), headers: Object.fromEntries(kept) },
      directory: path.slice(0, -key.length),
      headers: new Set(Object.keys(headers)),
      signer: await this.client.config.signer({ name: 'sigv4', signingName: 's3', signingRegion, properties: {} }),
      isRefused: false,
      overruled: 0,
    });
  }
}

/** Whether a status says more of the request than of the object (404, 409, 412, 416) and the moment (429, 5xx). */
const isRefusal = (status: number): boolean => status >= 300 && status < 500 && ![404, 409, 412, 416, 429].includes(status);

/** A key in a path, as the SDK writes it: percent-encoded but for the unreserved characters of RFC 3986 and slashes. */
const encoded = (key: string): string =>
  key.split('/').map((part) => encodeURIComponent(part).replace(/[!'()*]/g, (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`)).join('/');
