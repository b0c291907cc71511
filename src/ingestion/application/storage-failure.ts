import { ServiceError } from '../../common/service-error.js';

/** Returns a function for `.catch()`. It throws `ServiceError` `storage-failure`, whose cause is the caught error. */
export const storageFailure =
  (message: string) =>
  (cause: unknown): never => {
    throw new ServiceError('storage-failure', message, { cause });
  };
