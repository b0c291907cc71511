import { ServiceError } from '../../common/service-error.js';

/** For `.catch()`: throws what the `FileStorage` port promises for an error of the store. */
export const storageFailure =
  (message: string) =>
  (cause: unknown): never => {
    throw new ServiceError('storage-failure', message, { cause });
  };
