import type { ErrorKind } from '../common/service-error.js';

/**
 * The status and text of the answer for each kind of error, from part 7 of the service interface if that defines it.
 */
export const ERROR_TABLE = {
  'invalid-query-parameter': { status: 400, text: 'Invalid or missing query parameter.' },
  'invalid-request-body': { status: 400, text: 'Invalid request body.' },
  'invalid-digest': { status: 400, text: 'Invalid digest.' },
  'digest-mismatch': { status: 400, text: 'Digest mismatch.' },
  'invalid-idempotency-key': { status: 400, text: 'Invalid idempotency key.' },
  'idempotency-key-reused': { status: 422, text: 'Idempotency key reused.' },
  'request-in-progress': { status: 409, text: 'Request in progress.' },
  'invalid-role-assignment': { status: 400, text: 'Invalid user_id or role_id.' },
  'invalid-role': { status: 400, text: 'Invalid role_name or permissions.' },
  'invalid-user': { status: 400, text: 'Invalid email or roles.' },
  'invalid-user-update': { status: 400, text: 'Invalid user_id or new_name.' },
  unauthorized: { status: 403, text: 'Unauthorized.' },
  'not-found': { status: 404, text: 'Not found.' },
  'payload-too-large': { status: 413, text: 'Payload too large.' },
  'unsupported-media-type': { status: 415, text: 'Unsupported media type.' },
  'range-not-satisfiable': { status: 416, text: 'Range not satisfiable.' },
  'too-many-requests': { status: 429, text: 'Too many requests.' },
  'bad-request': { status: 400, text: 'Bad request.' },
  'client-aborted': { status: 400, text: 'Bad request.' },
  'request-timeout': { status: 408, text: 'Request timeout.' },
  'header-fields-too-large': { status: 431, text: 'Request header fields too large.' },
  'storage-failure': { status: 500, text: 'Internal server error.' },
  internal: { status: 500, text: 'Internal server error.' },
  'provider-unavailable': { status: 503, text: 'Identity provider unavailable.' },
  'provider-error': { status: 502, text: 'Identity provider error.' },
} as const satisfies Record<ErrorKind, { readonly status: number; readonly text: string }>;
