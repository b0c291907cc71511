import { ServiceError } from '../../common/service-error.js';

/** For `.catch()`: throws the error that the `FileStorage` port promises when the store fails. */
export const storageFailure =
  (message: string) =>
  (cause: unknown): never => {
    throw new ServiceError('storage-failure', message, { cause });
  };
