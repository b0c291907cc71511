import type { components } from './api-types.js';
import { DigestMismatchError, LoadDataError } from './errors.js';
import { digestOf } from './file-digest.js';
import { blobOrStream, collected, fileContent, type FileSource, formContent } from './file-source.js';
import { type Patience, repeated } from './repeats.js';
import { type Answer, answerOf, type ContentAnswer, type Progress, type RequestContent, sendContent, UnreadableContentError } from './transport.js';

type Schemas = components['schemas'];

export interface ClientOptions {
  readonly baseUrl: string;
  /** An access token, or a function that gets one before each request. */
  readonly token?: string | (() => string | Promise<string>);
  /**
   * How many times one request is sent at most, if it fails for a reason that may pass, such as a lost connection.
   * Requests that remove uploads, create or assign roles, or create or change users are sent only once, as is an upload
   * of a stream that can be read only once (see `FileSource`). Default: 5.
   */
  readonly attempts?: number;
  /**
   * How long an upload that can be repeated is repeated while another request with the same `Idempotency-Key` is in
   * progress (409), in milliseconds. If a replica of the service crashes during an upload, its key counts as in
   * progress for up to another minute. Default: 120,000.
   */
  readonly inProgressTimeoutMs?: number;
  /** The function that sends the requests. Default: the `fetch` of the runtime. */
  readonly fetch?: typeof fetch;
}

export interface RequestOptions {
  readonly signal?: AbortSignal;
}

export interface UploadRequest extends RequestOptions {
  readonly customerId: string;
  readonly filename: string;
  readonly manufacturer: string;
  /** Without a file, the upload consists of `additionalData` alone. */
  readonly file?: FileSource;
  /** The file's media type. Default: that of the `Blob`, or `application/octet-stream` if there is none. */
  readonly contentType?: string;
  readonly additionalData?: string;
  /** With this `Idempotency-Key`, the upload is stored once within 24 hours. Default: a random key. */
  readonly idempotencyKey?: string;
  readonly onProgress?: (progress: Progress) => void;
}

export interface UploadReceipt {
  readonly uploadId: string;
  /** `sha-256=:<base64>:` of the stored file; undefined for an upload without a file. */
  readonly digest: string | undefined;
  /** Whether an earlier request with the same `Idempotency-Key` had stored the upload. */
  readonly replayed: boolean;
}

export interface UploadListQuery {
  readonly customer_id?: string;
  readonly kind?: 'historical' | 'nowcast';
  /** Selects uploads received at this time (RFC 3339) or later. */
  readonly from?: string;
  /** Selects uploads received before this time (RFC 3339). */
  readonly to?: string;
  /** The most uploads on the page, 1 to 1000. */
  readonly limit?: number;
  /** The `next_page_token` of the previous page. */
  readonly page_token?: string;
}

const DEFAULT_ATTEMPTS = 5;
const DEFAULT_IN_PROGRESS_TIMEOUT_MS = 120_000;
const ONCE: Patience = { attempts: 1, inProgressTimeoutMs: 0 };

/**
 * A client of the service, for Node, Deno, Bun and browsers. Each method rejects with `LoadDataError` if the service or
 * a proxy refuses the request. Without an answer, it rejects with the error of `fetch` or of the function `token`, or
 * with the reason of `signal`. An answer with a success status may not be of the service, but the login page of a
 * proxy: an upload and `deleteUpload` then reject with `LoadDataError`, and other methods with a SyntaxError.
 */
export class LoadDataClient {
  private readonly baseUrl: string;
  private readonly patience: Patience;
  private readonly send: typeof fetch;

  constructor(private readonly options: ClientOptions) {
    this.baseUrl = options.baseUrl.replace(/\/+$/, '');
    const { attempts = DEFAULT_ATTEMPTS, inProgressTimeoutMs = DEFAULT_IN_PROGRESS_TIMEOUT_MS } = options;
    this.patience = { attempts, inProgressTimeoutMs };
    this.send = options.fetch ?? ((input, init) => fetch(input, init));
  }

  /**
   * Uploads historical data. Resolves when the upload is durable.
   *
   * The upload is repeated with the same `Idempotency-Key` if the connection fails, if the answer is 429, 502, 503 or
   * 504, or if another request with that key is in progress (409). A stream that is sent as it is read can't be
   * repeated, unless `file` is a function (see `FileSource`).
   *
   * @throws DigestMismatchError if the stored file doesn't have the sha-256 of the bytes that were sent.
   * @throws the error of reading the file; outside browsers, an error that `onProgress` throws. After any of these
   * errors, the upload isn't repeated.
   */
  uploadHistorical(request: UploadRequest): Promise<UploadReceipt> {
    return this.upload('/ingestHistoricalLoadData/upload_historical', request);
  }

  /** Uploads nowcast data, in the same way as `uploadHistorical`. */
  uploadNowcast(request: UploadRequest): Promise<UploadReceipt> {
    return this.upload('/ingestNowcastLoadData/upload_nowcast', request);
  }

  /** Lists one page of uploads, newest first. The page may be short, and even empty, although more pages follow. */
  async listUploads(query: UploadListQuery = {}, options: RequestOptions = {}): Promise<Schemas['UploadPage']> {
    return parsed(await this.call('GET', '/uploads', { query, ...options })) as Schemas['UploadPage'];
  }

  async findUpload(uploadId: string, options: RequestOptions = {}): Promise<Schemas['Upload']> {
    return parsed(await this.call('GET', `/uploads/${encodeURIComponent(uploadId)}`, options)) as Schemas['Upload'];
  }

  /**
   * Fetches the file of an upload. A body that breaks off isn't fetched again.
   *
   * @param range the offsets of the first and last byte of the wanted part, such as `0-99`. Default: the whole file.
   */
  async downloadUpload(uploadId: string, { range, signal }: RequestOptions & { readonly range?: string } = {}): Promise<Response> {
    const answer = await repeated<Answer & { readonly response?: Response }>(
      async () => {
        const headers = { ...(await this.authorization()), ...(range !== undefined && { Range: `bytes=${range}` }) };
        const response = await this.send(`${this.baseUrl}/uploads/${encodeURIComponent(uploadId)}/content`, { headers, ...(signal && { signal }) });
        return response.ok ? { status: response.status, text: '', header: () => undefined, response } : answerOf(response);
      },
      { ...this.patience, signal },
    );
    if (!answer.response) throw refusal(answer);
    return answer.response;
  }

  /** The request isn't repeated: if the first answer was lost, a repeat would be answered with 404. */
  async deleteUpload(uploadId: string, options: RequestOptions = {}): Promise<void> {
    const answer = await this.call('DELETE', `/uploads/${encodeURIComponent(uploadId)}`, { ...options, patience: ONCE });
    if (answer.status !== 204) throw refusal(answer);
  }

  /**
   * Removes all uploads of a customer, or only those received before the time `before` (RFC 3339). Resolves to their
   * number. The request isn't repeated, because a repeat would also remove what was uploaded meanwhile.
   */
  async deleteUploads(query: { readonly customer_id: string; readonly before?: string }, options: RequestOptions = {}): Promise<number> {
    return (parsed(await this.call('DELETE', '/uploads', { query, ...options, patience: ONCE })) as Schemas['UploadsRemoved']).deleted;
  }

  async assignRole(assignment: Schemas['RoleAssignment'], options: RequestOptions = {}): Promise<void> {
    await this.identity('POST', 'assign-role', { body: assignment, ...options });
  }

  /** Creates a role and resolves to its id. The request isn't repeated. */
  async createRole(role: Schemas['NewRole'], options: RequestOptions = {}): Promise<string> {
    return (parsed(await this.identity('POST', 'create-role', { body: role, ...options })) as Schemas['RoleCreated']).role_id;
  }

  /** Creates a user and resolves to their id. The request isn't repeated. */
  async createUser(user: Schemas['NewUser'], options: RequestOptions = {}): Promise<string> {
    return (parsed(await this.identity('POST', 'create-user', { body: user, ...options })) as Schemas['UserCreated']).user_id;
  }

  async updateUser(update: Schemas['UserUpdate'], options: RequestOptions = {}): Promise<void> {
    await this.identity('POST', 'update-user', { body: update, ...options });
  }

  async listRoles(options: RequestOptions = {}): Promise<Schemas['Role'][]> {
    return (parsed(await this.identity('GET', 'roles', options)) as Schemas['RoleList']).roles;
  }

  async listUsers(options: RequestOptions = {}): Promise<Schemas['User'][]> {
    return (parsed(await this.identity('GET', 'users', options)) as Schemas['UserList']).users;
  }

  private async upload(path: string, request: UploadRequest): Promise<UploadReceipt> {
    const { customerId, filename, manufacturer, signal, onProgress } = request;
    const key = { 'Idempotency-Key': request.idempotencyKey ?? randomKey() };
    const query = { customer_id: customerId, filename, manufacturer };
    if (request.file === undefined) {
      const body = { additional_data: request.additionalData ?? null };
      return receiptOf(await this.call('POST', path, { query, body, headers: key, ...(signal && { signal }) }));
    }
    const { content, digest } = await contentOf(request, request.file);
    const answer = await repeated(
      async () => {
        const headers = { ...key, ...(digest !== undefined && { 'X-Upload-Digest': digest }), ...(await this.authorization()) };
        return sendContent(this.send, { url: this.urlOf(path, query), headers, content, onProgress, signal });
      },
      { ...(content.isRepeatable ? this.patience : ONCE), signal },
    ).catch((error: unknown) => {
      throw error instanceof UnreadableContentError ? error.cause : error;
    });
    return receiptOf(answer, digest ?? answer.sentDigest);
  }

  /** A POST is sent only once: a repeated creation could be refused because the first one took the name or e-mail. */
  private identity(method: 'GET' | 'POST', operation: string, call: RequestOptions & { readonly body?: object }): Promise<Answer> {
    return this.call(method, `/idpManagementBackend/${operation}`, { ...call, patience: method === 'GET' ? this.patience : ONCE });
  }

  private async call(
    method: string,
    path: string,
    { query = {}, body, headers = {}, signal, patience = this.patience }: RequestOptions & { query?: object; body?: object; headers?: Record<string, string>; patience?: Patience },
  ): Promise<Answer> {
    const answer = await repeated(
      async () => {
        const all = { ...headers, ...(await this.authorization()), ...(body && { 'Content-Type': 'application/json' }) };
        const init = { method, headers: all, ...(body && { body: JSON.stringify(body) }), ...(signal && { signal }) };
        return answerOf(await this.send(this.urlOf(path, query), init));
      },
      { ...patience, signal },
    );
    if (answer.status >= 300) throw refusal(answer);
    return answer;
  }

  private urlOf(path: string, query: object): string {
    const members = Object.entries(query).flatMap(([name, value]) => (value === undefined ? [] : [[name, String(value)] as [string, string]]));
    return `${this.baseUrl}${path}${members.length > 0 ? `?${new URLSearchParams(members).toString()}` : ''}`;
  }

  private async authorization(): Promise<Record<string, string>> {
    const { token } = this.options;
    if (token === undefined) return {};
    return { Authorization: `Bearer ${typeof token === 'function' ? await token() : token}` };
  }
}

/** Files of these types are sent in a form: alone, JSON and forms would be parsed, and a URL-encoded form refused. */
const OWN_MEANING = /^\s*(application\/json|multipart\/form-data|application\/x-www-form-urlencoded)\s*(;|$)/i;

async function contentOf({ filename, contentType, additionalData }: UploadRequest, source: FileSource): Promise<{ content: RequestContent; digest: string | undefined }> {
  const type = contentType ?? ((source instanceof Blob && source.type) || 'application/octet-stream');
  if (additionalData !== undefined || OWN_MEANING.test(type)) {
    const file = await collected(source);
    return { content: formContent(file.slice(0, file.size, type), filename, additionalData), digest: await digestOf(file) };
  }
  const file = await blobOrStream(source);
  return { content: fileContent(file, type), digest: file instanceof Blob ? await digestOf(file) : undefined };
}

function receiptOf(answer: ContentAnswer, expected = answer.sentDigest): UploadReceipt {
  const uploadId = answer.header('X-Upload-Id');
  // Without `X-Upload-Id`, an answer with status 200 is that of a proxy, for example a login page.
  if (answer.status !== 200 || uploadId === undefined) throw refusal(answer);
  const digest = answer.header('X-Upload-Digest');
  if (expected !== undefined && digest !== expected) throw new DigestMismatchError(uploadId);
  return { uploadId, digest, replayed: answer.header('Idempotent-Replayed') === 'true' };
}

function refusal({ status, text, header }: Answer): LoadDataError {
  let error: unknown;
  try {
    ({ error } = JSON.parse(text) as { error?: unknown });
  } catch {
    // An answer that isn't JSON is that of a proxy, and has no `error`.
  }
  return new LoadDataError(status, typeof error === 'string' ? error : '', header('X-Request-Id'));
}

const parsed = ({ text }: Answer): unknown => JSON.parse(text);

/** A random key. `crypto.randomUUID` would need HTTPS in browsers. */
const randomKey = (): string => Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('');
