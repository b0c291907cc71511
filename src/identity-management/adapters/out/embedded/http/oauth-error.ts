/** The error codes that this issuer sends: some of RFC 6749, section 5.2, and `server_error` (section 4.1.2.1). */
export type OAuthErrorCode = 'invalid_request' | 'invalid_client' | 'unsupported_grant_type' | 'server_error';

const STATUS = {
  invalid_request: 400,
  invalid_client: 401,
  unsupported_grant_type: 400,
  server_error: 500,
} as const satisfies Record<OAuthErrorCode, number>;

/** An error that the token endpoint answers in the form of OAuth 2, with the message as `error_description`. */
export class OAuthError extends Error {
  readonly status: number;

  constructor(
    readonly code: OAuthErrorCode,
    description: string,
    options: { readonly status?: number; readonly cause?: unknown } = {},
  ) {
    super(description, 'cause' in options ? { cause: options.cause } : undefined);
    this.name = 'OAuthError';
    this.status = options.status ?? STATUS[code];
  }
}
