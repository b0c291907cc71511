import { ServiceError } from '../../../../common/service-error.js';
import { ProviderError, ProviderUnavailable } from '../../../domain/errors.js';
import { isBusy, isUnwritable } from './identity-database.js';

/** Runs work as a promise that rejects only with domain errors. */
export function attempt<Result>(work: () => Result | Promise<Result>): Promise<Result> {
  return new Promise<Result>((resolve) => {
    resolve(work());
  }).catch((error: unknown) => {
    throw toProviderFailure(error);
  });
}

export function toProviderFailure(error: unknown): ServiceError {
  if (error instanceof ServiceError) return error;
  if (isBusy(error)) return new ProviderUnavailable('The identity database is busy.', { cause: error });
  if (isUnwritable(error)) return new ProviderUnavailable('The disk of the identity database fails or is full.', { cause: error });
  return new ProviderError('The identity database failed.', { cause: error });
}
