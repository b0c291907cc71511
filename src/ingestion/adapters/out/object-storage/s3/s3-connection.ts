import { performance } from 'node:perf_hooks';
import { env } from 'node:process';
import { setTimeout as sleep } from 'node:timers/promises';
import { S3Client, type S3ClientConfig } from '@aws-sdk/client-s3';
import { withTimeLimit } from '../../../../../common/time-limit.js';
import { beginCall } from '../begin-call.js';
import { StoreSilentError } from '../bucket.js';
import { isPassing, isSkewLearnt } from './s3-errors.js';
import { StoreWatch } from './store-watch.js';

export interface S3ConnectionOptions {
  readonly bucket: string;
  /** Precedes every key, separated by one `/`; empty for none. */
  readonly prefix: string;
  /** The region of the bucket. Default: the SDK's own. */
  readonly region?: string | undefined;
  /** The URL of the store. Default: the SDK's own. */
  readonly endpoint?: string | undefined;
  readonly forcePathStyle: boolean;
  /** How long a call may make no progress, in milliseconds. */
  readonly timeoutMs: number;
  /** The credentials. Default: those that the SDK finds (its default chain). */
  readonly credentials?: S3ClientConfig['credentials'];
}

const MOST_CONNECT_MS = 2000;
/** Pause before a failed request of an upload is repeated, in milliseconds. */
const PART_PAUSE_MS = 500;

/**
 * The connection to one bucket: the clients of the SDK, the keys below the bucket's prefix, and the time limits and
 * retries of requests.
 */
export class S3Connection {
  readonly bucket: string;
  /** Precedes every key: empty, or with a `/` at the end. */
  readonly prefix: string;
  readonly client: S3Client;
  /** Sends each request once, because `persist` decides what is retried, and for how long. */
  readonly uploading: S3Client;
  readonly watch: StoreWatch;
  private readonly timeoutMs: number;

  constructor({ bucket, prefix, region, endpoint, forcePathStyle, timeoutMs, credentials }: S3ConnectionOptions) {
    const trimmed = prefix.replace(/^\/+|\/+$/g, '');
    this.bucket = bucket;
    this.prefix = trimmed && `${trimmed}/`;
    this.timeoutMs = timeoutMs;
    // The SDK warns about Node 20 on standard error, although this release of the SDK still supports it.
    env.AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED ??= 'true';
    const config: S3ClientConfig = {
      ...(region && { region }),
      ...(endpoint && { endpoint }),
      ...(credentials && { credentials }),
      forcePathStyle,
      expectContinueHeader: false,
      requestHandler: {
        connectionTimeout: Math.min(MOST_CONNECT_MS, timeoutMs),
        socketTimeout: timeoutMs,
        // The number of sockets isn't limited, because the SDK treats a request that waits for a free socket as one
        // that can't connect.
        httpAgent: { maxSockets: Infinity },
        httpsAgent: { maxSockets: Infinity },
      },
    };
    this.client = new S3Client(config);
    this.uploading = new S3Client({ ...config, maxAttempts: 1 });
    this.watch = new StoreWatch([this.client, this.uploading], timeoutMs);
  }

  /** Returns the error of a call that made no progress until the time-out. */
  readonly silence = (): StoreSilentError => new StoreSilentError(this.timeoutMs);

  /** Where an object is, as the input of a request says it. */
  at(key: string): { readonly Bucket: string; readonly Key: string } {
    return { Bucket: this.bucket, Key: this.prefix + key };
  }

  /**
   * Limits a small call, with its retries, to the time-out, from when it may begin.
   *
   * @throws StoreSilentError when the time-out has passed; any error of the call.
   */
  async within<T>(call: (options: { readonly abortSignal: AbortSignal }) => Promise<T>): Promise<T> {
    await beginCall();
    const ending = new AbortController();
    // Some operations ignore the signal, for example fetching credentials.
    return withTimeLimit(this.timeoutMs, call({ abortSignal: ending.signal }), () => {
      ending.abort();
      return this.silence();
    });
  }

  /**
   * Retries a request after failures that may pass, until the time-out has passed since the first failure. So a shorter
   * outage doesn't end a long upload.
   *
   * @throws StoreSilentError if a retry isn't answered by then; the error of the last attempt.
   */
  async persist<T>(send: () => Promise<T>): Promise<T> {
    let lastMs = Infinity;
    let hasLearntSkew = false;
    for (;;) {
      try {
        return await (lastMs === Infinity ? send() : withTimeLimit(lastMs - performance.now(), send(), this.silence));
      } catch (error) {
        if (isSkewLearnt(error) && !hasLearntSkew) {
          hasLearntSkew = true;
          continue;
        }
        const nowMs = performance.now();
        lastMs = Math.min(lastMs, nowMs + this.timeoutMs);
        if (!isPassing(error) || nowMs + PART_PAUSE_MS >= lastMs) throw error;
        await sleep(PART_PAUSE_MS);
      }
    }
  }

  /** Closes the clients and their sockets. */
  close(): void {
    this.client.destroy();
    this.uploading.destroy();
  }
}
