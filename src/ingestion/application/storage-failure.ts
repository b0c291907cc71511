import { ServiceError } from '../../common/service-error.js';

/** Returns a function for `.catch()` that throws ServiceError `storage-failure` with the caught error as its cause. */
export const storageFailure =
  (message: string) =>
  (cause: unknown): never => {
    throw new ServiceError('storage-failure', message, { cause });
  };
