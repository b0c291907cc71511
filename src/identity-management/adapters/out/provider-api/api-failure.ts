import { hasCode } from '../../../../common/error-code.js';
import { ServiceError, type ServiceErrorOptions } from '../../../../common/service-error.js';
import { ProviderError, ProviderUnavailable } from '../../../domain/errors.js';

/** The answer is missing or doesn't say whether the provider has carried out the request, or still will. */
export class OutcomeUnknown extends ProviderUnavailable {}

/** The provider reports success, but the answer's status or content isn't the expected one. */
export class AnswerUnreadable extends ProviderError {}

/** Whether a failed request may have been carried out anyway. */
export const mayBeDone = (error: unknown): boolean => error instanceof OutcomeUnknown || error instanceof AnswerUnreadable;

/**
 * Rethrows the failure of a preparatory request, such as that for a token, as one for which `mayBeDone` is false: the
 * main request wasn't carried out.
 */
export function toNothingDone(error: unknown): never {
  if (!(error instanceof ServiceError) || !mayBeDone(error)) throw error;
  const { message, retryAfterSeconds } = error;
  throw error instanceof OutcomeUnknown
    ? new ProviderUnavailable(message, { cause: error, ...(retryAfterSeconds !== undefined && { retryAfterSeconds }) })
    : new ProviderError(message, { cause: error });
}

/** The provider has authenticated the service, but refuses the request because the service doesn't have a right. */
export class PermissionDenied extends ProviderError {}

/** The token endpoint refuses to issue a token (RFC 6749, section 5.2, or an error of its own). */
export class TokenRefused extends ProviderError {
  /**
   * @param error the error code, for example `invalid_client`; empty if there is none.
   * @param description the provider's explanation; empty if there is none.
   */
  constructor(
    message: string,
    readonly error: string,
    readonly description: string,
  ) {
    super(message);
  }
}

export const UNSENT = 'ERR_UNSENT';
const UNSENT_CODES = [UNSENT, 'ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'EHOSTUNREACH', 'ENETUNREACH', 'UND_ERR_CONNECT_TIMEOUT'];

/** Whether an error means that the request was never sent. */
export const isUnsent = (error: unknown): boolean => hasCode(error, ...UNSENT_CODES);

/** The domain error for a request that got no complete answer: `OutcomeUnknown` unless it was never sent. */
export function toConnectionFailure(message: string, error: unknown): ServiceError {
  const Failure = isUnsent(error) ? ProviderUnavailable : OutcomeUnknown;
  return new Failure(message, { cause: error });
}

const MAX_RETRY_AFTER_S = 60;

type Failure = new (message: string, options?: ServiceErrorOptions) => ServiceError;

/** The errors by ranges of statuses. Both ends of a range are included; the first matching row applies. */
const FAILURES: readonly (readonly [from: number, to: number, Failure])[] = [
  [408, 408, OutcomeUnknown],
  [429, 429, ProviderUnavailable],
  [500, 599, OutcomeUnknown],
  [300, 399, ProviderError],
  [403, 403, PermissionDenied],
  [401, 402, ProviderError],
];

/**
 * The error for a status that is a failure for every operation; undefined for any other.
 *
 * @param message describes the answer, without data from clients.
 * @param retryAfter the `Retry-After` header. At most a minute is passed on, because the provider may be available much
 * sooner.
 */
export function toStatusFailure(message: string, status: number, retryAfter: string | undefined): ServiceError | undefined {
  const row = FAILURES.find(([from, to]) => from <= status && status <= to);
  const retryAfterSeconds = /^\d{1,9}$/.test(retryAfter ?? '') ? Math.min(Number(retryAfter), MAX_RETRY_AFTER_S) : 0;
  return row && new row[2](message, retryAfterSeconds > 0 ? { retryAfterSeconds } : {});
}
