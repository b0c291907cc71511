import { ServiceError } from '../../common/service-error.js';

/**
 * Returns a function for `.catch()` that throws ServiceError `storage-failure`. It rethrows a `client-aborted` error,
 * because then nothing is wrong with the store.
 */
export const storageFailure =
  (message: string) =>
  (cause: unknown): never => {
    if (cause instanceof ServiceError && cause.kind === 'client-aborted') throw cause;
    throw new ServiceError('storage-failure', message, { cause });
  };
