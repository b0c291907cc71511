import { FileDigest } from './file-digest.js';

export interface Progress {
  /** How many bytes of the file the client has handed to the connection; again from 0 if the upload is repeated. */
  readonly sent: number;
  /** The file's size in bytes; undefined if the file is a stream that is sent as it is read (see `FileSource`). */
  readonly total: number | undefined;
}

export interface RequestContent {
  /** The `Content-Type` of the request; undefined if the runtime sets it. */
  readonly contentType: string | undefined;
  /** The file's size in bytes; undefined if the file is sent as it is read from a stream. */
  readonly size: number | undefined;
  readonly isRepeatable: boolean;
  /** The body as a whole, so that the runtime knows its length; undefined if `size` is. */
  readonly whole: (() => Blob | FormData) | undefined;
  open(): { readonly bytes: ReadableStream<Uint8Array>; readonly contentType: string };
}

export interface ContentRequest {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly content: RequestContent;
  readonly onProgress?: ((progress: Progress) => void) | undefined;
  readonly signal?: AbortSignal | undefined;
}

export interface Answer {
  readonly status: number;
  readonly text: string;
  readonly header: (name: string) => string | undefined;
}

/** `sentDigest` is the sha-256 of the file if it was computed while the file was sent. */
export interface ContentAnswer extends Answer {
  readonly sentDigest?: string | undefined;
}

/** Reading the content of an upload request failed, or the callback `onProgress` failed, so a repeat would fail too. */
export class UnreadableContentError extends Error {
  override readonly name = 'UnreadableContentError';

  constructor(override readonly cause: unknown) {
    super('The content of a request cannot be read.');
  }
}

export async function answerOf(response: Response): Promise<Answer> {
  const text = await response.text();
  return { status: response.status, text, header: (name) => response.headers.get(name) ?? undefined };
}

/**
 * Sends content by POST.
 *
 * @throws UnreadableContentError; the error of `fetch` (a TypeError if the connection of an `XMLHttpRequest` fails);
 * the reason of the signal.
 */
export async function sendContent(send: typeof fetch, request: ContentRequest): Promise<ContentAnswer> {
  const { url, content, onProgress, signal } = request;
  const whole = content.whole?.();
  if (whole && onProgress && isBrowser()) return sendByBrowser(whole, request);
  const init = { method: 'POST', ...(signal && { signal }) };
  if (whole && !onProgress) return answerOf(await send(url, { ...init, headers: headersOf(request), body: whole }).catch(withoutReadError));
  const { bytes, contentType } = openOf(content);
  const digest = new FileDigest();
  let sent = 0;
  const watched = new WatchedStream(bytes, (chunk) => {
    digest.add(chunk);
    sent += chunk.length;
    onProgress?.(progressOf(sent, content));
  });
  const streamed = { ...init, headers: { ...request.headers, 'Content-Type': contentType }, body: watched.readable, duplex: 'half' };
  try {
    const answer = await answerOf(await send(url, streamed as RequestInit));
    return { ...answer, sentDigest: whole instanceof FormData ? undefined : digest.field() };
  } catch (error) {
    throw watched.failure ?? error;
  }
}

/**
 * Converts a NotReadableError, which Node reports as the cause of `fetch`'s error if the file changed or vanished while
 * it was sent. Rethrows any other error.
 */
function withoutReadError(error: unknown): never {
  const { cause } = error as { cause?: { readonly name?: unknown } };
  throw cause?.name === 'NotReadableError' ? new UnreadableContentError(cause) : error;
}

function openOf(content: RequestContent): ReturnType<RequestContent['open']> {
  try {
    return content.open();
  } catch (error) {
    throw new UnreadableContentError(error);
  }
}

class WatchedStream {
  failure: UnreadableContentError | undefined;
  readonly readable: ReadableStream<Uint8Array>;

  constructor(source: ReadableStream<Uint8Array>, see: (chunk: Uint8Array) => void) {
    const reader = source.getReader();
    const read = async (): Promise<Uint8Array | undefined> => {
      try {
        const { value } = await reader.read();
        if (value) see(value);
        return value;
      } catch (error) {
        this.failure = new UnreadableContentError(error);
        throw error;
      }
    };
    this.readable = new ReadableStream({
      async pull(controller) {
        const chunk = await read();
        if (chunk) controller.enqueue(chunk);
        else controller.close();
      },
      cancel: (reason) => reader.cancel(reason),
    });
  }
}

const headersOf = ({ headers, content: { contentType } }: ContentRequest): Record<string, string> => ({ ...headers, ...(contentType !== undefined && { 'Content-Type': contentType }) });

/** `sent` is cut to the size of the file, because a form with the file is longer. */
const progressOf = (sent: number, { size }: RequestContent): Progress => ({ sent: Math.min(sent, size ?? sent), total: size });

interface BrowserRequest {
  readonly status: number;
  readonly responseText: string;
  readonly upload: { onprogress: ((event: { readonly loaded: number }) => void) | null };
  onload: (() => void) | null;
  onerror: (() => void) | null;
  onabort: (() => void) | null;
  open(method: string, url: string): void;
  setRequestHeader(name: string, value: string): void;
  getResponseHeader(name: string): string | null;
  send(body: Blob | FormData): void;
  abort(): void;
}

const browserRequest = (): (new () => BrowserRequest) | undefined => (globalThis as { XMLHttpRequest?: new () => BrowserRequest }).XMLHttpRequest;

/**
 * Whether the client runs in a browser, whose `fetch` reports no progress of uploads, and sends no stream over
 * HTTP/1.1.
 */
export const isBrowser = (): boolean => browserRequest() !== undefined;

function sendByBrowser(body: Blob | FormData, sent: ContentRequest): Promise<Answer> {
  const { url, content, onProgress, signal } = sent;
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const request = new (browserRequest() as new () => BrowserRequest)();
    request.open('POST', url);
    for (const [name, value] of Object.entries(headersOf(sent))) request.setRequestHeader(name, value);
    request.upload.onprogress = ({ loaded }) => onProgress?.(progressOf(loaded, content));
    const abort = (): void => {
      request.abort();
    };
    signal?.addEventListener('abort', abort);
    const finish = (outcome: () => void) => (): void => {
      signal?.removeEventListener('abort', abort);
      outcome();
    };
    request.onload = finish(() => {
      resolve({ status: request.status, text: request.responseText, header: (name) => request.getResponseHeader(name) ?? undefined });
    });
    request.onerror = finish(() => {
      reject(new TypeError('The connection failed.'));
    });
    request.onabort = finish(() => {
      reject(signal?.reason as Error);
    });
    request.send(body);
  });
}
