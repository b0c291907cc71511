import { S3ServiceException } from '@aws-sdk/client-s3';

/** S3's code of an error, or another error's name. */
export const errorNameOf = (error: unknown): string => (error instanceof Error ? error.name : '');

/** Whether there is no object; a bucket that doesn't exist is an error. */
export const isNotFound = (error: unknown): boolean => ['NoSuchKey', 'NotFound'].includes(errorNameOf(error));

/** Whether the store doesn't allow what was asked. */
export const isForbidden = (error: unknown): boolean =>
  errorNameOf(error) === 'AccessDenied' || (error instanceof S3ServiceException && error.$metadata.httpStatusCode === 403);

/** Whether the store refused a request for its time, and the SDK knows the store's time now. */
export const isSkewLearnt = (error: unknown): boolean =>
  error instanceof S3ServiceException && 'clockSkewCorrected' in error.$metadata && error.$metadata.clockSkewCorrected === true;

/** Whether another attempt may fare better: there was no connection, or the store has trouble of its own. */
export const isPassing = (error: unknown): boolean => {
  if (error instanceof S3ServiceException) {
    const { httpStatusCode = 500 } = error.$metadata;
    return httpStatusCode >= 500 || httpStatusCode === 429;
  }
  return errorNameOf(error) === 'TimeoutError' || (error instanceof Error && 'code' in error);
};
