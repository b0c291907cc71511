import { ServiceError } from '../../../../common/service-error.js';

/** Whether an error of the file system has one of these codes, `ENOENT` for instance. */
export const hasCode = (error: unknown, ...codes: string[]): boolean =>
  error instanceof Error && 'code' in error && codes.includes(String(error.code));

/** For `.catch()`: throws what the port promises for an error of the disk. */
export const storageFailure =
  (message: string) =>
  (cause: unknown): never => {
    throw new ServiceError('storage-failure', message, { cause });
  };
