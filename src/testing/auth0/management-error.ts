import { STATUS_CODES } from 'node:http';

/** A refusal of a request by Auth0's Management API. `body` has the members of that API's errors. */
export class ManagementError extends Error {
  override readonly name = 'ManagementError';

  constructor(
    readonly status: number,
    message: string,
    readonly errorCode?: string,
  ) {
    super(message);
  }

  get body(): object {
    const { status: statusCode, message, errorCode } = this;
    return { statusCode, error: STATUS_CODES[statusCode], message, ...(errorCode !== undefined && { errorCode }) };
  }
}

export const invalidBody = (reason: string): ManagementError =>
  new ManagementError(400, `Payload validation error: '${reason}'.`, 'invalid_body');

export const invalidQuery = (reason: string): ManagementError =>
  new ManagementError(400, `Query validation error: '${reason}'.`, 'invalid_query_string');
