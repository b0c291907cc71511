import { S3ServiceException } from '@aws-sdk/client-s3';

/** The code of an S3 error, or the name of any other Error; empty for anything else. */
export const errorNameOf = (error: unknown): string => (error instanceof Error ? error.name : '');

/** Whether an error says that an object is missing; for a HEAD request, maybe its bucket: the answer has no body. */
const isNotFound = (error: unknown): boolean => ['NoSuchKey', 'NotFound'].includes(errorNameOf(error));

/** Whether an error says that the store doesn't permit the request. */
export const isForbidden = (error: unknown): boolean =>
  errorNameOf(error) === 'AccessDenied' || (error instanceof S3ServiceException && error.$metadata.httpStatusCode === 403);

/**
 * Whether the store refused a request because of the time in its signature, and the SDK has learnt the store's time
 * from that. A retry is then signed with the right time.
 */
export const isSkewLearnt = (error: unknown): boolean =>
  error instanceof S3ServiceException && 'clockSkewCorrected' in error.$metadata && error.$metadata.clockSkewCorrected === true;

/**
 * Whether a retry may succeed: the connection failed, or the store has a problem of its own (5xx) or asks for fewer
 * requests (429).
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
