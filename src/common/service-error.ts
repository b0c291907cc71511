/** What went wrong, in words that know no HTTP. `http/error-table.ts` gives each kind its status and text. */
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
  /** What made it happen. For the log alone, never for a client. */
  readonly cause?: unknown;
  /** Whole seconds after which a repeat makes sense. */
  readonly retryAfterSeconds?: number;
}

/** An error that a client gets an answer for. Its message is for the log; clients get the table's text. */
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
