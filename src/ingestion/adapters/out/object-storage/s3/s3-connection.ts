import { performance } from 'node:perf_hooks';
import { env } from 'node:process';
import { setTimeout as delay } from 'node:timers/promises';
import { S3Client, type S3ClientConfig } from '@aws-sdk/client-s3';
import { withTimeLimit } from '../../../../../common/time-limit.js';
import { beginCall } from '../begin-call.js';
import { SHORT_BODY_BYTES, StoreSilentError } from '../bucket.js';
import { Crc32InTurns, Sha256InTurns } from './checksums.js';
import { DirectRequests } from './direct-requests.js';
import { isPassing, isSkewLearnt } from './s3-errors.js';
import { StoreWatch } from './store-watch.js';
import { leavePayloadUnsigned } from './unsigned-payload.js';

export interface S3ConnectionOptions {
  readonly bucket: string;
  /**
   * The text before every key in the bucket; empty for none. Slashes at its ends are ignored: one `/` is put between
   * prefix and key.
   */
  readonly prefix: string;
  readonly region?: string | undefined;
  readonly endpoint?: string | undefined;
  readonly forcePathStyle: boolean;
  readonly timeoutMs: number;
  /** Called before a request is repeated. */
  readonly onRetry?: () => void;
  readonly credentials?: S3ClientConfig['credentials'];
  /** A profile of AWS's configuration files, which has the credentials. */
  readonly profile?: string;
}

const MAX_CONNECT_MS = 2000;
const CONNECTIONS = {
  // Connections aren't limited: the SDK treats a request that waits for a free one as one that can't connect.
  maxSockets: Infinity,
  // Closes connections that are idle for this many milliseconds. Those of a burst would otherwise stay open for good.
  timeout: 10_000,
};
const PART_PAUSE_MS = 500;

/** The connection to one bucket, with the time limits and retries of requests. */
export class S3Connection {
  readonly bucket: string;
  readonly prefix: string;
  readonly client: S3Client;
  /**
   * The client for the writing requests of `upload` that aren't direct. Sends each one once, because `persist` decides
   * about retries.
   */
  readonly uploading: S3Client;
  /** Requests like those of `client`. */
  readonly direct: DirectRequests;
  readonly watch: StoreWatch;
  readonly onRetry: () => void;
  private readonly timeoutMs: number;

  constructor({ bucket, prefix, region, endpoint, forcePathStyle, timeoutMs, onRetry = () => undefined, credentials, profile }: S3ConnectionOptions) {
    const trimmed = prefix.replace(/^\/+|\/+$/g, '');
    this.bucket = bucket;
    this.prefix = trimmed && `${trimmed}/`;
    this.timeoutMs = timeoutMs;
    this.onRetry = onRetry;
    // Silences the SDK's warning about Node 20, which this release of the SDK still supports.
    env.AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED ??= 'true';
    const config: S3ClientConfig = {
      ...(region && { region }),
      ...(endpoint && { endpoint }),
      ...(credentials && { credentials }),
      ...(profile !== undefined && { profile }),
      forcePathStyle,
      sha256: Sha256InTurns,
      checksumAlgorithms: { CRC32: Crc32InTurns },
      expectContinueHeader: false,
      requestHandler: {
        connectionTimeout: Math.min(MAX_CONNECT_MS, timeoutMs),
        socketTimeout: timeoutMs,
        httpAgent: CONNECTIONS,
        httpsAgent: CONNECTIONS,
      },
    };
    this.client = new S3Client(config);
    this.uploading = new S3Client({ ...config, maxAttempts: 1 });
    for (const client of [this.client, this.uploading]) leavePayloadUnsigned(client);
    this.direct = new DirectRequests(this.client);
    this.watch = new StoreWatch([this.client, this.uploading], { timeoutMs, onRetry });
  }

  readonly silence = (): StoreSilentError => new StoreSilentError(this.timeoutMs);

  at(key: string): { readonly Bucket: string; readonly Key: string } {
    return { Bucket: this.bucket, Key: this.prefix + key };
  }

  /**
   * Begins a small call as soon as `beginCall` allows it, and limits it, including its retries, to the time-out.
   *
   * @throws StoreSilentError when the time-out has passed; any error of the call.
   */
  async within<T>(call: (options: { readonly abortSignal: AbortSignal }) => Promise<T>): Promise<T> {
    await beginCall();
    const ending = new AbortController();
    // The abort signal isn't enough, because some operations ignore it, such as fetching credentials.
    return withTimeLimit(this.timeoutMs, () => call({ abortSignal: ending.signal }), this.silence, () => { ending.abort(); });
  }

  /**
   * Begins a call with a long request or answer, which may take longer than the time-out as long as bytes move.
   *
   * @param client the client that `call` uses.
   * @throws StoreSilentError; any error of the call.
   */
  async whileBytesMove<T>(client: S3Client, call: () => Promise<T>): Promise<T> {
    // Credentials are fetched first, because the sockets' time limit doesn't limit that. Each client has its own.
    await this.within(() => client.config.credentials());
    return call();
  }

  sending<T>(client: S3Client, body: Uint8Array, call: (options: { readonly abortSignal?: AbortSignal }) => Promise<T>): Promise<T> {
    return body.length > SHORT_BODY_BYTES ? this.whileBytesMove(client, () => call({})) : this.within(call);
  }

  /**
   * Sends a request, and retries it after failures that may pass, until the time-out has passed since the first
   * failure. So an outage that is shorter than the time-out doesn't end a long upload.
   *
   * @throws StoreSilentError if the time-out ends while a retry waits for its answer; otherwise the error of the last
   *   attempt.
   */
  async persist<T>(send: () => Promise<T>): Promise<T> {
    let lastMs = Infinity;
    let hasLearntSkew = false;
    for (;;) {
      try {
        return await (lastMs === Infinity ? send() : withTimeLimit(lastMs - performance.now(), send, this.silence));
      } catch (error) {
        if (isSkewLearnt(error) && !hasLearntSkew) {
          hasLearntSkew = true;
          this.onRetry();
          continue;
        }
        const nowMs = performance.now();
        lastMs = Math.min(lastMs, nowMs + this.timeoutMs);
        if (!isPassing(error) || nowMs + PART_PAUSE_MS >= lastMs) throw error;
        await delay(PART_PAUSE_MS);
        this.onRetry();
      }
    }
  }

  close(): void {
    this.client.destroy();
    this.uploading.destroy();
  }
}
