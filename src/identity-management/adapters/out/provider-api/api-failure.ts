import { ServiceError, type ServiceErrorOptions } from '../../../../common/service-error.js';
import { ProviderError, ProviderUnavailable } from '../../../domain/errors.js';

/** The provider may have done what it was asked to, or may do it yet: its answer didn't come, or says nothing about that. */
export class OutcomeUnknown extends ProviderUnavailable {}

/** The provider says that it has done what it was asked to, in a form that can't be read. */
export class AnswerUnreadable extends ProviderError {}

/** Whether what was asked may have been done, although it failed. */
export const mayBeDone = (error: unknown): boolean => error instanceof OutcomeUnknown || error instanceof AnswerUnreadable;

/** @throws the failure of a request for a token in place of what the token is for, of which nothing was done. */
export function toNothingDone(error: unknown): never {
  if (!(error instanceof ServiceError) || !mayBeDone(error)) throw error;
  const { message, retryAfterSeconds } = error;
  throw error instanceof OutcomeUnknown
    ? new ProviderUnavailable(message, { cause: error, ...(retryAfterSeconds !== undefined && { retryAfterSeconds }) })
    : new ProviderError(message, { cause: error });
}

/** We are known, and may not do what was asked. */
export class PermissionDenied extends ProviderError {}

/** The token endpoint answers with an error of OAuth 2 (RFC 6749, 5.2), or one of its own. */
export class TokenRefused extends ProviderError {
  /**
   * @param error such as `invalid_client`; empty where the answer has none.
   * @param description what the provider says about it; empty where the answer has none.
   */
  constructor(
    message: string,
    readonly error: string,
    readonly description: string,
  ) {
    super(message);
  }
}

/** The code of an error for which a request was given up before it had a connection. */
export const UNSENT = 'ERR_UNSENT';
/** The codes of errors without a connection. */
const UNSENT_CODES: readonly unknown[] = [UNSENT, 'ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'EHOSTUNREACH', 'ENETUNREACH', 'UND_ERR_CONNECT_TIMEOUT'];

/** Whether nothing was asked, because there was no connection to ask on. */
export const isUnsent = (error: unknown): boolean => UNSENT_CODES.includes((error as { code?: unknown }).code);

/** Of a request that got no whole answer, for whatever reason. */
export function toConnectionFailure(message: string, error: unknown): ServiceError {
  const Failure = isUnsent(error) ? ProviderUnavailable : OutcomeUnknown;
  return new Failure(message, { cause: error });
}

type Failure = new (message: string, options?: ServiceErrorOptions) => ServiceError;

/** The first row that fits; a status that fits none is for the operation to read. */
const FAILURES: readonly (readonly [from: number, to: number, Failure])[] = [
  [408, 408, OutcomeUnknown],
  [429, 429, ProviderUnavailable],
  [500, 599, OutcomeUnknown],
  [300, 399, ProviderError],
  [403, 403, PermissionDenied],
  [401, 402, ProviderError],
];

/**
 * What a status means whatever was asked; undefined where that depends on the operation.
 *
 * @param message says what was answered, and holds nothing of a client's.
 * @param retryAfter the header's value.
 */
export function toStatusFailure(message: string, status: number, retryAfter: string | undefined): ServiceError | undefined {
  const row = FAILURES.find(([from, to]) => from <= status && status <= to);
  return row && new row[2](message, /^\d{1,5}$/.test(retryAfter ?? '') ? { retryAfterSeconds: Number(retryAfter) } : {});
}
