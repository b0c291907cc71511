/** The kinds of errors, independent of HTTP: `http/error-table.ts` maps each kind to a status and text. */
export type ErrorKind =
  | 'invalid-query-parameter'
  | 'invalid-request-body'
  | 'invalid-digest'
  | 'digest-mismatch'
  | 'invalid-idempotency-key'
  | 'idempotency-key-reused'
  | 'request-in-progress'
  | 'invalid-role-assignment'
  | 'invalid-role'
  | 'invalid-user'
  | 'invalid-user-update'
  | 'unauthorized'
  | 'not-found'
  | 'range-not-satisfiable'
  | 'payload-too-large'
  | 'unsupported-media-type'
  | 'too-many-requests'
  | 'bad-request'
  | 'request-timeout'
  | 'header-fields-too-large'
  | 'client-aborted'
  | 'storage-failure'
  | 'internal'
  | 'provider-unavailable'
  | 'provider-error';

export interface ServiceErrorOptions {
  /** The underlying error. Logged if the answer's status is a 5xx or an answer had begun; never sent to a client. */
  readonly cause?: unknown;
  /** The `Retry-After` of the answer, a whole number of seconds; undefined for an answer without one. */
  readonly retryAfterSeconds?: number;
}

/**
 * An error that is reported to the client, with the text that `http/error-table.ts` has for its kind. The message is
 * only logged.
 */
export class ServiceError extends Error {
  readonly retryAfterSeconds: number | undefined;

  constructor(
    readonly kind: ErrorKind,
    message: string = kind,
    options: ServiceErrorOptions = {},
  ) {
    super(message, 'cause' in options ? { cause: options.cause } : undefined);
    this.name = new.target.name;
    this.retryAfterSeconds = options.retryAfterSeconds;
  }
}
