import { S3ServiceException } from '@aws-sdk/client-s3';

/** The code of an S3 error, or the name of any other Error; empty for anything else. */
export const errorNameOf = (error: unknown): string => (error instanceof Error ? error.name : '');

/**
 * Whether an error says that an object is missing. If the whole bucket is missing, most requests fail with another
 * error. A HEAD request fails with `NotFound` in both cases, because its answer has no body that says what is missing.
 */
const isNotFound = (error: unknown): boolean => ['NoSuchKey', 'NotFound'].includes(errorNameOf(error));

/** Whether an error says that the store doesn't permit the request. */
export const isForbidden = (error: unknown): boolean =>
  errorNameOf(error) === 'AccessDenied' || (error instanceof S3ServiceException && error.$metadata.httpStatusCode === 403);

/**
 * Whether an error says two things: the store refused a request because of the time in its signature, and the SDK has
 * learnt the store's time from the refusal. A retry is then signed with the right time.
 */
export const isSkewLearnt = (error: unknown): boolean =>
  error instanceof S3ServiceException && 'clockSkewCorrected' in error.$metadata && error.$metadata.clockSkewCorrected === true;

/**
 * Whether a retry of the failed request may succeed: there was no connection or it broke off, the store has a problem
 * of its own (5xx), or it asks for fewer requests (429).
 */
export const isPassing = (error: unknown): boolean => {
  if (error instanceof S3ServiceException) {
    const { httpStatusCode = 500 } = error.$metadata;
    return httpStatusCode >= 500 || httpStatusCode === 429;
  }
  return errorNameOf(error) === 'TimeoutError' || (error instanceof Error && 'code' in error);
};

/** The result of a request; undefined if the object is missing. Rejects with any other error of the request. */
export async function orUndefined<T>(found: Promise<T>): Promise<T | undefined> {
  try {
    return await found;
  } catch (error) {
    if (isNotFound(error)) return undefined;
    throw error;
  }
}
