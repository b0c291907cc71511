import { S3ServiceException } from '@aws-sdk/client-s3';

/** S3's code of an error, or another error's name. */
export const errorNameOf = (error: unknown): string => (error instanceof Error ? error.name : '');

/** Whether there is no object; a bucket that doesn't exist is an error. */
export const isNotFound = (error: unknown): boolean => ['NoSuchKey', 'NotFound'].includes(errorNameOf(error));

/** Whether another attempt may fare better: there was no connection, or the store has trouble of its own. */
export const isPassing = (error: unknown): boolean => {
  if (error instanceof S3ServiceException) {
    const { httpStatusCode = 500 } = error.$metadata;
    return httpStatusCode >= 500 || httpStatusCode === 429;
  }
  return errorNameOf(error) === 'TimeoutError' || (error instanceof Error && 'code' in error);
};
